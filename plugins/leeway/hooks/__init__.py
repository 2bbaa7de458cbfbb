"""Run steps, and call AWS, for the operators."""

from leeway.package_checks import require_package

require_package("pipelines")
