"""Notify people about a model's lifecycle by mail and in Slack."""

from leeway.package_checks import require_package

require_package("pipelines")
