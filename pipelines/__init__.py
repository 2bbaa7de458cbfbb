"""The steps of the ML lifecycle, as plain Python. They run without Airflow."""

__version__ = "0.1.0"
