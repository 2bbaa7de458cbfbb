"""Leeway's Airflow provider: operators that run the steps of `pipelines`, and calls that create a model's DAGs."""

__version__ = "0.1.0"
