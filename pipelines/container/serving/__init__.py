"""Score requests of rows by column name: what `serve` and an endpoint's container share.

The modules travel into the container as code/pipelines/container/serving. So they import only each other, the standard
library, duckdb, pyarrow and pandas; for lookups also boto3.
"""
