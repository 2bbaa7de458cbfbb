"""Leeway's Airflow provider package: operators over the steps of `pipelines`."""

__version__ = "0.1.0"
