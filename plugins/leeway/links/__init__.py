"""Buttons that Airflow's UI shows on a task: each opens a page about the task's result."""

from leeway.package_checks import require_package

require_package("pipelines")
