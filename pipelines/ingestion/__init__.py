"""Read the rows of sources: a partition at a time, or only new and changed rows, by cursor."""
