"""Define the documents that Leeway's page in Airflow shows: small JSON files in LEEWAY_HOME/status.

`python -m pipelines status --write` writes them, and Airflow's API server only sends them to the browser. So neither
the lake nor a library that reads it is needed in its process.
"""
