"""Start, find and stop SageMaker jobs of any kind, and wait for their end."""
