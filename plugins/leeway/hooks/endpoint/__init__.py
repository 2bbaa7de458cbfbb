"""Deployments of registered versions to SageMaker endpoints."""
