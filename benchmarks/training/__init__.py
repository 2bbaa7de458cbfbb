"""Benchmarks of trainings and of the search for hyperparameters."""
