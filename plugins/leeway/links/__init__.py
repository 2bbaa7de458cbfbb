"""Links that Airflow's UI shows on tasks."""

from leeway.package_checks import require_package

require_package("pipelines")
