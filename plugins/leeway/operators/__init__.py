"""Operators, one in each module. An operator that runs a step has the step's name."""

from leeway.package_checks import require_package

require_package("pipelines")
