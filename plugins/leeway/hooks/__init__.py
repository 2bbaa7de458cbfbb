"""The connections of operators to systems outside of Airflow: steps, SageMaker, S3."""

from leeway.package_checks import require_package

require_package("pipelines")
