"""drydock: a SageMaker-compatible server that really runs the training jobs it is sent."""

__version__ = "0.1.0"
