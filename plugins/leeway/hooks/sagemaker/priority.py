"""Turn the priority of a job's operator into the fields by which Airflow orders tasks."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pipelines.settings import settings

Priority = Literal["", "low", "normal", "high"]
"""Which tasks Airflow starts first when slots are scarce. Empty and normal: Airflow's own order."""
WEIGHTS = {"low": 0, "high": 1_000}
"""Maps low and high to Airflow's priority_weight. The weight of any other task is 1, and 1 more for each task
downstream of it."""


def build_priority_fields(priority: str) -> dict[str, Any]:
    """Return the arguments of BaseOperator for a priority: priority_weight and weight_rule; and the pool of all jobs.

    Args:
        priority: see `Priority`.

    Raises:
        ValueError: there is no such priority. Airflow then shows an import error of the DAG's file.
    """
    if priority not in get_args(Priority):
        raise ValueError(f"priority must be low, normal or high, not {priority!r}.")
    # Airflow's default rule adds the weights of the downstream tasks. So a task of low priority could start before the
    # tasks of a short DAG.
    fields: dict[str, Any] = (
        {"priority_weight": WEIGHTS[priority], "weight_rule": "absolute"} if priority in WEIGHTS else {}
    )
    return {**fields, **({"pool": settings().job_pool} if settings().job_pool else {})}
