"""Batch transform jobs: request, rules, work, and the program that asks the model."""
