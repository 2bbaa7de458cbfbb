"""Links that Airflow's UI shows on tasks."""
