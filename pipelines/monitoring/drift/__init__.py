"""Drift: how far a window's data has gone from the reference's, how sure that is, and whether it is an alarm.

Pure: arrays of counts in, numbers and decisions out. Only decisions are loaded by importing the package; what measures
(`columns`, `performance`) needs numpy and scipy.
"""

from __future__ import annotations

from pipelines.monitoring.drift.alarms import Decision, decide, decide_each
from pipelines.monitoring.drift.finding import Finding, Measure, WindowResult
from pipelines.monitoring.drift.policy import Policy

__all__ = ["Decision", "Finding", "Measure", "Policy", "WindowResult", "decide", "decide_each"]
