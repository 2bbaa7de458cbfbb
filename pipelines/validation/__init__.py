"""Validate partitions by suites of expectations, and write pages that show the results."""
