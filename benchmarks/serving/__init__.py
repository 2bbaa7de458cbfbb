"""Measure the model server beside `mlflow models serve`."""
