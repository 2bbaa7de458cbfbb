"""Start, find, wait for and stop SageMaker jobs of any kind."""
