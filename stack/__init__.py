"""The embedded stack: drydock, MLflow and Airflow on this machine, started and stopped together.

The stack knows its services only by their command lines and URLs, and imports none of them.
"""
