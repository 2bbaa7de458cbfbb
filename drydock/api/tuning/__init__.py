"""Answer the operations of hyperparameter tuning jobs."""
