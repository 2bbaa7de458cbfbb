"""Send Airflow metrics (StatsD, OpenTelemetry) about results; nothing is sent if `[metrics]` names no backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MICROS = 1_000_000
"""Millionths in a dollar: counters are whole numbers."""


def count_training(result: Mapping[str, Any], model: str) -> None:
    """Send a training's cost, saving, interruptions and length."""
    tags = {"model": model or "none"}
    _count("training.jobs", 1, tags)
    _count("training.cost_usd_micros", round(MICROS * (result.get("cost_usd") or 0)), tags)
    _count("training.interruptions", int(result.get("interruptions") or 0), tags)
    _count("training.billable_s", round(result.get("billable_s") or 0), tags)
    _count("training.training_s", round(result.get("training_s") or 0), tags)
    if (saving := result.get("saving")) is not None:
        _get_stats().gauge("leeway.training.saving", float(saving), tags=tags)


def count_drift_decision(result: Mapping[str, Any], model: str) -> None:
    """Send a decision about drift."""
    outcome = str(result.get("outcome"))
    _count("drift.decisions", 1, {"model": model, "outcome": outcome})
    _get_stats().gauge("leeway.drift.drifted", float(outcome == "drift"), tags={"model": model})


def count_gate_verdict(result: Mapping[str, Any], model: str) -> None:
    """Send a gate's verdict."""
    _count("gate.verdicts", 1, {"model": model, "verdict": str(result.get("outcome"))})


def _count(name: str, by: int, tags: dict[str, str]) -> None:
    if by > 0:
        _get_stats().incr(f"leeway.{name}", by, tags=tags)


def _get_stats() -> Any:
    # Imported here, because it sets up a backend, which parsing a DAG does not need.
    from airflow.providers.common.compat.sdk import Stats

    return Stats
