"""Check, store and list SageMaker models."""
