"""Measure the drift of a window against the reference, and decide whether there is an alarm.

All functions are pure: they take counts or findings. Importing the package loads only what a decision needs. The
modules that measure, such as `columns` and `performance`, load numpy and scipy.
"""

from __future__ import annotations

from pipelines.monitoring.drift.alarms import Decision, decide, decide_each
from pipelines.monitoring.drift.finding import Finding, Measure, WindowResult
from pipelines.monitoring.drift.policy import Policy

__all__ = ["Decision", "Finding", "Measure", "Policy", "WindowResult", "decide", "decide_each"]
