"""flights_rollback: takes a promotion back, by hand, in one click."""

import datetime as dt

from airflow.sdk import DAG, Param
from leeway.default_args import default_args
from leeway.operators.rollback import RollbackOperator

DOC = """
### Roll back: the champion before is champion again

Trigger it with `why`. The alias `champion` then names the version that was champion before, or the one in `to`, and the
version that was taken out is **blocked**: the gate may pass it again, but it is not promoted unless that is forced. Who
asked, when and why is an event in the lake's table `lifecycle_events` (`python -m pipelines registry events flights`).

A run rolls back once: a retry, or a cleared task, finds that it has done so. To go back further, trigger another run.
Where there was no champion before, the run fails with that line, and nothing changes.
"""

with DAG(
    dag_id="flights_rollback",
    doc_md=DOC,
    description="Makes the champion before the champion of flights again.",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["leeway", "flights", "registry"],
    params={
        "model": Param("flights", type="string", minLength=1, description="Registered model."),
        "why": Param(type="string", minLength=1, description="Why: it stays on record."),
        "to": Param(None, type=["null", "string"], description="Version to go back to. Null: the champion before."),
        "force": Param(False, type="boolean", description="Whether `to` may be one that was never champion."),
    },
    default_args=default_args("ml", execution_timeout=dt.timedelta(minutes=15)),
):
    RollbackOperator(
        task_id="rollback",
        model_name="{{ params.model }}",
        why="{{ params.why }}",
        to="{{ params.to }}",
        force="{{ params.force }}",
    )
