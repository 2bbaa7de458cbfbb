"""Tuning jobs: searches for hyperparameters whose trials are training jobs on spot instances."""
