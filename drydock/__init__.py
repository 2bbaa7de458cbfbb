"""drydock: a server with SageMaker's API. It runs training, processing and transform jobs, and endpoints, locally."""

__version__ = "0.1.0"
