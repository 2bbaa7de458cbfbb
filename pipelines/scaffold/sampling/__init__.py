"""Read a sample of the rows of a source."""
