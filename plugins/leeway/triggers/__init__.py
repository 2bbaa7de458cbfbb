"""Triggers that start SageMaker jobs and wait for them in the triggerer."""
