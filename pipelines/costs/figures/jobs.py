"""Measure how jobs ran: their success, their wait in the queue, restored checkpoints, spot, and GPU utilization."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.costs.figures.measurement import (
    Evidence,
    Measurement,
    Row,
    compute_instance_h,
    find_percentile,
    measure_quotient,
)
from pipelines.instances.catalogue import find_size

WAIT_SHARE = 0.95
"""The reported wait is this percentile, as a share: 95 % of the jobs do not wait longer."""
HIGH_PRIORITY = "high"
NO_JOB = "no job that was created in this time has ended"


def measure_job_success(evidence: Evidence) -> Measurement:
    """Measure the share of ended jobs that completed, without jobs that were stopped on request."""
    ended_rows = [row for row in evidence.rows if not _is_stopped_on_request(row)]
    completed_count = sum(row["status"] == "Completed" for row in ended_rows)
    return measure_quotient(completed_count, len(ended_rows), len(ended_rows), NO_JOB)


def measure_queue_wait(evidence: Evidence) -> Measurement:
    """Measure how long jobs waited in a queue and for their first instances, seconds: the 95th percentile."""
    return _measure_wait(evidence.rows, NO_JOB)


def measure_priority_queue_wait(evidence: Evidence) -> Measurement:
    """Measure the same wait as `measure_queue_wait`, only of the jobs with priority high."""
    rows = [row for row in evidence.rows if row["priority"] == HIGH_PRIORITY]
    return _measure_wait(rows, f"no job has the priority {HIGH_PRIORITY} in the ledger" if evidence.rows else NO_JOB)


def measure_restored_checkpoints(evidence: Evidence) -> Measurement:
    """Measure the share of interrupted trainings that restored a checkpoint after each interruption.

    An interruption after which the script did not start again, or did not report its start, has no effect.
    """
    interrupted_rows = [row for row in evidence.trainings if row["interruptions"]]
    known_rows = [row for row in interrupted_rows if (row["resumes"] or 0) + (row["cold_starts"] or 0)]
    restored_count = sum(not row["cold_starts"] for row in known_rows)
    reason = "no job was interrupted"
    if interrupted_rows:
        reason = f"none of the {len(interrupted_rows)} interrupted jobs reported that its script started again"
    return measure_quotient(restored_count, len(known_rows), len(known_rows), reason)


def measure_spot_share(evidence: Evidence) -> Measurement:
    """Measure the share of the instance hours of trainings that ran on spot."""
    rows = evidence.trainings
    hours = sum(map(compute_instance_h, rows))
    spot_hours = sum(compute_instance_h(row) for row in rows if row["spot"])
    return measure_quotient(spot_hours, hours, len(rows), "no training ran in this time")


def measure_spot_saving(evidence: Evidence) -> Measurement:
    """Measure what the trainings on spot saved, as a share of their on-demand cost."""
    rows = [row for row in evidence.trainings if row["spot"]]
    on_demand_usd = sum(row["on_demand_usd"] for row in rows)
    saved_usd = on_demand_usd - sum(row["cost_usd"] for row in rows)
    return measure_quotient(saved_usd, on_demand_usd, len(rows), "no training ran on spot in this time")


def measure_gpu_use(evidence: Evidence) -> Measurement:
    """Measure the mean utilization of the GPUs, weighted by the GPU hours of the jobs.

    Jobs without GPUs, and jobs whose utilization of the GPUs is not known, are left out.
    """
    used_gpu_hours, gpu_hours, jobs = 0.0, 0.0, 0
    sizes = [(row, find_size(row["instance_type"] or "")) for row in evidence.rows]
    counts = [(row, size.gpus if size else 0) for row, size in sizes]
    for row, count in counts:
        hours = compute_instance_h(row) * count
        if hours and row["gpu_mean"] is not None:
            jobs, gpu_hours = jobs + 1, gpu_hours + hours
            # CloudWatch adds up the GPUs of an instance: 100 percent is one of them.
            used_gpu_hours += row["gpu_mean"] / 100 / count * hours
    has_gpus = any(count for _, count in counts)
    reason = (
        "CloudWatch has no data on the utilization of the GPUs"
        if has_gpus
        else "no job ran on an instance type with known GPUs"
    )
    return measure_quotient(used_gpu_hours, gpu_hours, jobs, reason)


def _measure_wait(rows: Sequence[Row], reason: str) -> Measurement:
    waits = [(row.get("queue_s") or 0.0) + row["first_capacity_s"] for row in rows]
    return Measurement(find_percentile(waits, WAIT_SHARE), len(waits)) if waits else Measurement(None, 0, reason)


def _is_stopped_on_request(row: Row) -> bool:
    # SageMaker also stops a job that reached MaxRuntime or MaxWaitTime. Such a job is not successful.
    return row["status"] == "Stopped" and row["secondary_status"] in ("Stopped", "", None)
