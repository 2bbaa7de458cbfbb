"""Create the DAG with which a person undoes a promotion."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import DAG, Param

from leeway.default_args import build_default_args
from leeway.hooks.step.champion_events import build_champion_asset
from leeway.operators.rollback import RollbackOperator

DOC = """
### Roll back to the previous champion

Trigger the DAG with `why`. The previous champion, or the version in `to`, becomes champion. The version that was
champion is **blocked**: even if the gate passes it again, it is promoted only with `force`. The user, the time and the
reason are recorded as an event in the lake's table `lifecycle_events` (`python -m pipelines registry events {model}`
lists them).

A run rolls back only once, even if its task is retried or cleared. To go back further, trigger another run. If there
was no champion before, the run fails with an error that says so, and nothing changes.
"""


def create_rollback_dag(*, model: str) -> DAG:
    """Create the DAG MODEL_rollback, which only a person starts.

    Args:
        model: registered model.
    """
    with DAG(
        dag_id=f"{model}_rollback",
        doc_md=DOC.format(model=model),
        description=f"Makes the previous champion of {model} the champion again.",
        schedule=None,
        catchup=False,
        max_active_runs=1,
        tags=["leeway", model, "registry"],
        params={
            "why": Param(type="string", minLength=1, description="Reason, which is recorded."),
            "to": Param(None, type=["null", "string"], description="Version to promote. Null: the previous champion."),
            "champion": Param(
                None,
                type=["null", "string"],
                description="Version that has to be champion, or else nothing is rolled back. Null: any.",
            ),
            "force": Param(
                False,
                type="boolean",
                description="Whether `to` may be a blocked version, or one that was never champion.",
            ),
        },
        default_args=build_default_args("ml", execution_timeout=dt.timedelta(minutes=15)),
    ) as dag:
        RollbackOperator(
            task_id="rollback",
            model=model,
            why="{{ params.why }}",
            to="{{ params.to }}",
            champion="{{ params.champion }}",
            force="{{ params.force }}",
            asset=build_champion_asset(model),
        )
    return dag
