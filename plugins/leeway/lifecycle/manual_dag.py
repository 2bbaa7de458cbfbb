"""Create a DAG that only a person starts: for a decision that is recorded with the person's name and a reason."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from airflow.sdk import DAG, Param

from leeway.default_args import build_default_args


def create_manual_dag(
    dag_id: str,
    *,
    doc: str,
    description: str,
    tags: Sequence[str],
    owner: str = "ml",
    params: Mapping[str, Param] | None = None,
    execution_timeout: dt.timedelta = dt.timedelta(minutes=15),
) -> DAG:
    """Create the DAG without tasks. It has the param `why`, and no schedule. Only one of its runs is active at a time.

    Args:
        dag_id: id of the DAG.
        doc: what the DAG does and how to start it, as Markdown.
        description: what the DAG does, in a line.
        tags: tags in addition to `leeway`.
        owner: owner of the tasks.
        params: params in addition to `why`.
        execution_timeout: maximum time of one try of a task. Time in the triggerer does not count.
    """
    return DAG(
        dag_id=dag_id,
        doc_md=doc,
        description=description,
        schedule=None,
        catchup=False,
        max_active_runs=1,
        tags=["leeway", *tags],
        params={
            "why": Param(type="string", minLength=1, maxLength=1000, description="Reason, which is recorded."),
            **(params or {}),
        },
        default_args=build_default_args(owner, execution_timeout=execution_timeout),
    )
