"""Score the rows of requests, in the same way in `serve` and in an endpoint's container.

The modules are copied into the container, as code/pipelines/container/serving. So they import only each other, the
standard library, duckdb, pyarrow and pandas; for lookups also boto3 and the libraries that it requires.
"""
