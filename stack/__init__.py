"""The embedded stack: drydock, MLflow and Airflow on this machine, started and stopped together.

The stack knows its services only by their commands and URLs, and imports none of them.
"""
