"""Define no metrics in addition to those of the task, for datasets without a metrics.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

METRICS: Mapping[str, Any] = {}
"""Metrics by name. A dataset with metrics of its own has a metrics.py: see `pipelines.evaluation.own_metrics`."""
