"""What the stack needs of Airflow, over its REST API: runs, backfills, and the reasons of failures."""
