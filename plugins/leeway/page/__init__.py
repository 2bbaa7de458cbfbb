"""Leeway's page in Airflow: the state of the models, their data and costs, and what a person can do about them.

Every process of Airflow imports its plugins, and only the API server shows pages. So `mount` imports only the
standard library, and the rest is imported at the first request.
"""
