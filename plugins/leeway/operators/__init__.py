"""Operators, one in each module. An operator over a step has the step's name."""

from leeway.package_checks import require_package

require_package("pipelines")
