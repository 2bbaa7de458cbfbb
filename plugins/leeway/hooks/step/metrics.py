"""Send Airflow metrics (StatsD or OpenTelemetry) about results. Without a metrics backend, Airflow sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MICROS_PER_USD = 1_000_000
"""Millionths of a US dollar: costs are counted in this unit, because counters are whole numbers."""


def count_training(result: Mapping[str, Any], model: str) -> None:
    """Count a training, its cost, interruptions, billable, training and queue seconds; send the saving as a gauge."""
    tags = {"model": model or "none"}
    _count("training.jobs", 1, tags)
    _count("training.cost_usd_micros", round(MICROS_PER_USD * (result.get("cost_usd") or 0)), tags)
    _count("training.interruptions", int(result.get("interruptions") or 0), tags)
    _count("training.billable_s", round(result.get("billable_s") or 0), tags)
    _count("training.training_s", round(result.get("training_s") or 0), tags)
    _count("training.queue_s", round(result.get("queue_s") or 0), tags)
    if (saving := result.get("saving")) is not None:
        _get_stats().gauge("leeway.training.saving", float(saving), tags=tags)


def count_drift_decision(result: Mapping[str, Any], model: str) -> None:
    """Count a decision about drift by its outcome; send as a gauge whether the data have drifted (1 or 0)."""
    outcome = str(result.get("outcome"))
    _count("drift.decisions", 1, {"model": model, "outcome": outcome})
    _get_stats().gauge("leeway.drift.drifted", float(outcome == "drift"), tags={"model": model})


def count_skew_result(result: Mapping[str, Any], model: str) -> None:
    """Count a comparison of requests with the lake by its outcome."""
    _count("skew.results", 1, {"model": model, "outcome": str(result.get("outcome"))})


def count_gate_verdict(result: Mapping[str, Any], model: str) -> None:
    """Count a gate's verdict by its outcome."""
    _count("gate.verdicts", 1, {"model": model, "verdict": str(result.get("outcome"))})


def _count(name: str, amount: int, tags: dict[str, str]) -> None:
    if amount > 0:
        _get_stats().incr(f"leeway.{name}", amount, tags=tags)


def _get_stats() -> Any:
    # Imported here, because the import sets up the backend. Parsing a DAG does not need it.
    from airflow.providers.common.compat.sdk import Stats

    return Stats
