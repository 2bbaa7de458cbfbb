"""The embedded stack: drydock, MLflow and Airflow on this machine, started and stopped together.

The stack knows its services by their commands and URLs only, and imports none of them.
"""
