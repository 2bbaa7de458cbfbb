"""Describe the states of models and the costs of projects as metrics for Prometheus."""
