"""Compare what requests saw with what the lake says, and store the results."""
