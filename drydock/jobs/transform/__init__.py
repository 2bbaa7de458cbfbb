"""Batch transform jobs: request, rules, work, and the program that calls the model."""
