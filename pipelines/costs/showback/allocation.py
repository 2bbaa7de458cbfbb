"""Say who pays for each row of the ledgers: by the row itself, else by section `showback` of params.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pipelines.costs.endpoints.ledger import get_fleet
from pipelines.costs.payers import find_dataset
from pipelines.costs.showback.policy import ShowbackPolicy

Row = dict[str, Any]


def allocate_rows(rows: Iterable[Mapping[str, Any]], policy: ShowbackPolicy) -> list[Row]:
    """Return the rows of jobs or endpoints with team, environment, user and dataset; empty where nothing is known.

    An endpoint has no user. Rows of endpoints, and rows that an older Leeway wrote, have no dataset: they get the
    dataset of their model.
    """
    find_dataset_once = lru_cache(maxsize=None)(find_dataset)
    return [
        {
            **row,
            "team": row.get("team") or policy.teams.get(row["project"] or "", ""),
            "environment": row.get("environment") or policy.environments.get(row["project"] or "", ""),
            "user": row.get("user") or "",
            "dataset": row.get("dataset") or find_dataset_once(row["model"] or ""),
        }
        for row in rows
    ]


def add_job_columns(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Add to rows of endpoints the columns by which jobs are grouped: the instance type, and an empty DAG."""
    return [{**row, "instance_type": get_fleet(row).machine, "dag_id": ""} for row in rows]
