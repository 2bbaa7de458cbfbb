"""Select the rows of the ledger from which a training can be predicted, and read their figures."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.costs.restored_checkpoints import RESTORE_COLUMNS
from pipelines.errors import SpecError
from pipelines.instances.catalogue import Instance, find_instance

Row = Mapping[str, Any]
TRAINING_ARN, COMPLETED = ":training-job/", "Completed"
TRIAL_NAME = re.compile(r".+-\d{3}-[0-9a-f]{8}")
"""Name that SageMaker gives a trial: the name of its tuning job, a number, and a digest."""
POSITIVE_COLUMNS = ("training_s", "instance_count")
NOT_NEGATIVE_COLUMNS = ("interruptions", "cost_usd", "on_demand_usd")
"""A row must have a value in all columns of both kinds. Otherwise it may lack other figures, too, so it is not used."""


def read_figure(row: Row, column: str) -> float | None:
    """Return a figure of a row; None if the row does not have it, or if it is negative or not finite."""
    value = row.get(column)
    return float(value) if value is not None and 0 <= value < math.inf else None


def has_figures(row: Row) -> bool:
    """Return whether a row says how a job trained: its instances, time, cost, interruptions and end."""
    return (
        all(read_figure(row, column) for column in POSITIVE_COLUMNS)
        and all(read_figure(row, column) is not None for column in NOT_NEGATIVE_COLUMNS)
        and row["spot"] is not None
        and bool(row["status"] and row["instance_type"])
    )


def is_usable(row: Row) -> bool:
    """Return whether a row is a completed training with all of its figures, on a known instance type."""
    return _is_training(row) and row["status"] == COMPLETED and has_figures(row) and find_type(row) is not None


def _is_training(row: Row) -> bool:
    """Return whether a row is about a training job. A row without an ARN counts as one."""
    return TRAINING_ARN in str(row.get("arn") or TRAINING_ARN)


def list_unusable_jobs(rows: Iterable[Row]) -> list[str]:
    """Return the names of the trainings whose row has a figure that is missing or not possible.

    Only trainings that completed, or whose row has no status, are listed. No prediction can be made from such a row.
    """
    return [
        str(row["name"])
        for row in rows
        if _is_training(row) and row["status"] in (COMPLETED, "", None) and not has_figures(row)
    ]


def is_trial(row: Row) -> bool:
    """Return whether a row is a trial of a tuning: it trains on a part of the data, so its time is not comparable."""
    return TRIAL_NAME.fullmatch(str(row["name"])) is not None


def compute_work_s(row: Row) -> float:
    """Return the seconds of a usable training without the work that interruptions undid.

    A prediction for spot adds the work that the expected interruptions repeat, and one for on-demand instances adds
    none. So this time must not include repeated work; `training_s` does. Jobs with interruptions are used, too,
    because jobs without an interruption are the shorter ones, and where spot is scarce, all jobs have some. The result
    includes restarts, a few minutes each.

    `lost_s` is subtracted only if the script reported its start after each interruption. Otherwise `lost_s` has all
    work until the interruption, even if a checkpoint was restored. Then the whole time is returned, because a
    time that is too long is better than one that is too short.
    """
    training_s, lost_s = float(row["training_s"]), read_figure(row, "lost_s") or 0.0
    restarts = sum(read_figure(row, column) or 0 for column in RESTORE_COLUMNS)
    is_lost_time_known = restarts >= row["interruptions"] and lost_s < training_s
    return training_s - lost_s if is_lost_time_known else training_s


def find_type(row: Row) -> Instance | None:
    """Return the instance type of a row; None if the catalogue does not know it."""
    try:
        instance = find_instance(str(row["instance_type"] or ""))
    except SpecError:
        return None
    return instance if instance.is_known else None


def get_model_or_task(row: Row) -> str:
    """Return the model of a row, or DAG.TASK if it has no model. Jobs for which this text is equal are compared."""
    return str(row["model"] or f"{row.get('dag_id') or ''}.{row.get('task_id') or ''}")


def select_rows(rows: Sequence[Row], name: str) -> list[Row]:
    """Return the rows of a model's jobs, without the trials of its tunings; if there are none, those of one job.

    The rows keep their order.

    Args:
        rows: rows of the ledger.
        name: name of a model or of a job.
    """
    model_rows = [row for row in rows if row["model"] == name and not is_trial(row)]
    return model_rows or [row for row in rows if row["name"] == name]


def select_until(rows: Sequence[Row], day: dt.date | None) -> list[Row]:
    """Return the rows of the jobs that ended on a day, in UTC, or earlier; all rows if the day is None.

    A job that still ran on that day is left out: a plan that was made then could not know its time and its cost. If the
    end of a job is not known, its creation counts.
    """
    moments = [row.get("ended") or row["created"] for row in rows]
    return [
        row
        for row, moment in zip(rows, moments, strict=True)
        if day is None or (moment and moment.astimezone(dt.UTC).date() <= day)
    ]


def describe_unusable_rows(rows: Sequence[Row]) -> str:
    """Describe in words how many rows there are, and why they cannot be used."""
    if not rows:
        return "no row"
    completed_rows = [row for row in rows if row["status"] == COMPLETED]
    rows_without_time = [row for row in completed_rows if not read_figure(row, "training_s")]
    rows_without_figure = [row for row in completed_rows if row not in rows_without_time and not has_figures(row)]
    unknown_count = sum(find_type(row) is None for row in completed_rows)
    other_text = f", {len(rows_without_figure)} without another figure" if rows_without_figure else ""
    return (
        f"{len(rows)} row(s): {len(rows) - len(completed_rows)} not completed, "
        f"{len(rows_without_time)} without a time, {unknown_count} on unknown or retired types{other_text}"
    )
