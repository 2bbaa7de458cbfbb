"""The embedded stack: drydock, MLflow and Airflow on this machine, started and stopped as one thing.

Knows its services only by their commands and URLs: nothing of them is imported here.
"""
