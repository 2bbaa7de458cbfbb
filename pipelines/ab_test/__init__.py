"""Compare two versions of a model on the outcomes of the rows that each scored."""
