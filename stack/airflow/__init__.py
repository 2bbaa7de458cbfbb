"""Start DAG runs by Airflow's REST API, wait for their end, and explain why a run failed."""
