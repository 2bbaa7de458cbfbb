"""What operators use to run steps and to call SageMaker and S3."""

from leeway.package_checks import require_package

require_package("pipelines")
