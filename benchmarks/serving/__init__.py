"""Measure Leeway's model server beside `mlflow models serve`, and an endpoint of drydock during releases."""
