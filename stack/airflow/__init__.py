"""Start and watch runs over Airflow's REST API, and explain why one failed."""
