"""Run steps, and call SageMaker and S3, for the operators."""

from leeway.package_checks import require_package

require_package("pipelines")
