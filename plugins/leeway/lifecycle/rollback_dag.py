"""Create the DAG with which a person undoes a promotion."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from leeway.lifecycle.manual_dag import create_manual_dag
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
    with create_manual_dag(
        f"{model}_rollback",
        doc=DOC.format(model=model),
        description=f"Makes the previous champion of {model} the champion again.",
        tags=[model, "registry"],
        params={
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
    ) as dag:
        RollbackOperator(
            task_id="rollback",
            model=model,
            why="{{ params.why }}",
            to="{{ params.to }}",
            champion="{{ params.champion }}",
            force="{{ params.force }}",
        )
    return dag
