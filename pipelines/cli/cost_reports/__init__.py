"""Commands of `python -m pipelines costs` that need more than the ledgers' sums: key figures, showback, commitments."""
