"""Hyperparameter tuning jobs: propose hyperparameters, train with each proposal, and find the best one."""
