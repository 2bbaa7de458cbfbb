"""Run steps of `pipelines` as child processes, and pass what they need and return between them and Airflow."""
