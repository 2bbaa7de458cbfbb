"""Leeway's Airflow provider: operators that run the steps of `pipelines`, and the DAGs of a model's lifecycle."""

__version__ = "0.1.0"
