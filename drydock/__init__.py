"""drydock: a SageMaker-compatible server that executes training, processing and transform jobs on this machine."""

__version__ = "0.1.0"
