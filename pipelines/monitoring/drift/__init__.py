"""Drift of a window against the reference: its size, its p-value, and whether it is an alarm.

Pure functions of arrays of counts. Importing the package loads only the decisions; the measures (`columns`,
`performance`) need numpy and scipy.
"""

from __future__ import annotations

from pipelines.monitoring.drift.alarms import Decision, decide, decide_each
from pipelines.monitoring.drift.finding import Finding, Measure, WindowResult
from pipelines.monitoring.drift.policy import Policy

__all__ = ["Decision", "Finding", "Measure", "Policy", "WindowResult", "decide", "decide_each"]
