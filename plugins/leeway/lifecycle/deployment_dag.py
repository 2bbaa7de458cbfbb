"""Create the DAG that deploys each new champion to a SageMaker endpoint."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import DAG, Param

from leeway.default_args import build_default_args
from leeway.hooks.step.champion_events import build_champion_asset
from leeway.operators.deploy import DeployOperator

DOC = """
### Deploy the champion to an endpoint

Each event of the asset `{model}_champion` starts a run: a promotion by `{model}_train`, or a rollback by
`{model}_rollback`. The task `deploy` deploys the version that is champion at this moment. Section `serving` of
`params.yaml` says how the requests move to the new version: all at once, or in steps. During the deployment, the
earlier version answers the other requests. If a CloudWatch alarm is raised, all requests move back to it.

* **Paused** at first: an endpoint costs money every hour. Unpause the DAG when you want one, and trigger it once.
* **A deployment was rolled back**: the task fails, and its error names the alarm and the reason. The registry's
champion stays: roll it back, too, with `{model}_rollback`, or correct the cause and clear the task.
* **By hand**: trigger the DAG, with a `version` or without, for example after `python -m pipelines promote`.
* **One run at a time**: the next run waits.
* `python -m pipelines undeploy --model {model}` deletes the endpoint.
"""


def create_deployment_dag(*, model: str) -> DAG:
    """Create the DAG MODEL_deploy. An event of the asset MODEL_champion starts it.

    Args:
        model: registered model.
    """
    with DAG(
        dag_id=f"{model}_deploy",
        doc_md=DOC.format(model=model),
        description=f"Deploys each new champion of {model} to a SageMaker endpoint.",
        schedule=[build_champion_asset(model)],
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=1,
        tags=["leeway", model, "serving"],
        params={
            "version": Param(None, type=["null", "string"], description="Version to deploy. Null: the champion."),
        },
        default_args=build_default_args("ml", execution_timeout=dt.timedelta(minutes=30)),
    ) as dag:
        DeployOperator(task_id="deploy", model=model, version="{{ params.version or '' }}")
    return dag
