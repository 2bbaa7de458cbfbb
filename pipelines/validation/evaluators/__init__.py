"""Evaluate the expectations of a suite in DuckDB, over the files of one partition.

No module here imports `pipelines.validation.suites`. `duckdb_expectations` lists the types of expectations, and for
each the function that makes its check.
"""
