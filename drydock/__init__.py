"""drydock: a SageMaker-compatible server that runs training, processing and transform jobs, and endpoints, here."""

__version__ = "0.1.0"
