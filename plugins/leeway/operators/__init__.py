"""Operators, one in each module, and their base classes. Most operators that run a step have its name."""

from leeway.package_checks import require_package

require_package("pipelines")
