"""The metrics of a dataset in addition to those of its task: none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

METRICS: Mapping[str, Any] = {}
"""Name to metric. A dataset that has some defines them in its metrics.py: see `pipelines.evaluation.own_metrics`."""
