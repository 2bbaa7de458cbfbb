"""Define the metrics of datasets without a metrics.py: none in addition to those of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

METRICS: Mapping[str, Any] = {}
"""Metrics by name. A dataset with metrics of its own has a metrics.py: see `pipelines.evaluation.own_metrics`."""
