"""The work of Leeway, as plain Python steps. Runs with Airflow not installed."""

__version__ = "0.1.0"
