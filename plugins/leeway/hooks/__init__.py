"""How operators reach what is outside of Airflow."""
