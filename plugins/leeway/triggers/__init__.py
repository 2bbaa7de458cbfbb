"""Triggers that start SageMaker jobs and deployments, and wait for their end in the triggerer."""
