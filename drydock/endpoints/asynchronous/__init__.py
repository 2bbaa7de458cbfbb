"""Asynchronous invocations: requests that wait in a stored queue, and whose answers are written to S3."""
