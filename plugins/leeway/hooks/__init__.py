"""The connections of operators to systems outside of Airflow: steps, SageMaker, S3."""
