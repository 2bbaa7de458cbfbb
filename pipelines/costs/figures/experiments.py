"""Measure experiments: what one costs, how many a person makes in a week, and the time from request to result.

An experiment is a DAG run with training jobs. All of its attempts and trials belong to it. A training job that no DAG
run started is an experiment of its own.
"""

from __future__ import annotations

import datetime as dt
from itertools import groupby
from statistics import median

from pipelines.costs.figures.measurement import Evidence, Measurement, Row, measure_quotient

NO_EXPERIMENT = "no training that was created in this time has completed"


def list_experiments(evidence: Evidence) -> list[list[Row]]:
    """Return the rows of each experiment."""
    return [list(rows) for _, rows in groupby(sorted(evidence.trainings, key=_get_experiment_key), _get_experiment_key)]


def list_completed_experiments(evidence: Evidence) -> list[list[Row]]:
    """Return the rows of each experiment that has a completed training."""
    return [rows for rows in list_experiments(evidence) if any(row["status"] == "Completed" for row in rows)]


def measure_experiment_usd(evidence: Evidence) -> Measurement:
    """Measure the cost of all trainings, divided by the number of completed experiments, USD."""
    completed_count = len(list_completed_experiments(evidence))
    return measure_quotient(
        sum(row["cost_usd"] for row in evidence.trainings), completed_count, completed_count, NO_EXPERIMENT
    )


def measure_experiments_per_person_week(evidence: Evidence) -> Measurement:
    """Measure the mean number of completed experiments of a person in a week.

    Experiments without a user, and persons without a completed experiment, are left out.
    """
    completed_experiments = list_completed_experiments(evidence)
    # The user of each experiment that has one.
    users = [user for rows in completed_experiments if (user := next((row["user"] for row in rows if row["user"]), ""))]
    reason = "no completed training of this time has a user (LEEWAY_USER, or a DAG run that a person started)"
    reason = reason if completed_experiments else NO_EXPERIMENT
    return measure_quotient(len(users), len(set(users)) * evidence.period.weeks, len(users), reason)


def measure_result_time(evidence: Evidence) -> Measurement:
    """Measure the median time from the request of an experiment's first job to the end of its last one, seconds."""
    times = [
        (max(row["ended"] for row in rows) - min(map(_compute_request_time, rows))).total_seconds()
        for rows in list_completed_experiments(evidence)
        if all(row["ended"] for row in rows)
    ]
    return Measurement(median(times), len(times)) if times else Measurement(None, 0, NO_EXPERIMENT)


def _compute_request_time(row: Row) -> dt.datetime:
    """Return when a job was requested. SageMaker creates a job of a queue only after the wait in the queue."""
    created: dt.datetime = row["created"]
    return created - dt.timedelta(seconds=row.get("queue_s") or 0.0)


def _get_experiment_key(row: Row) -> tuple[str, str, str]:
    """Return the DAG run of a training job, or the ARN of a job that no DAG run started."""
    has_run = row["dag_id"] and row["run_id"]
    return (row["dag_id"], row["run_id"], "") if has_run else ("", "", row["arn"])
