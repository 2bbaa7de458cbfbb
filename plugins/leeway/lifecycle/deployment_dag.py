"""Create the DAG that deploys each new champion to a SageMaker endpoint."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import DAG, Param

from leeway.default_args import build_default_args
from leeway.operators.deploy import DeployOperator
from leeway.operators.shadow import ShadowOperator
from leeway.triggers.champion import build_champion_asset

DOC = """
### Deploy the champion to an endpoint

Each change of the champion starts a run within seconds, whoever changed it: a task of `{model}_train` or
`{model}_rollback`, `python -m pipelines promote` or `rollback`, or a person in MLflow. For that, Airflow's triggerer
watches the registry. (It takes up to a minute if only MLflow's library can read the registry.) The tasks use the
version that is champion when the run starts, and the policy in section `serving` of `params.yaml`.

1. `shadow`, if `shadow_minutes` is above 0: the version gets copies of the endpoint's requests, and its answers are
   judged by the limits in section `shadow`. A version that fails is not deployed; one that is undecided is deployed. If
   `shadow_minutes` is 0, or there is no endpoint yet, the task is skipped, and `deploy` runs.
2. `deploy`: the version gets the traffic, at once or in steps. If an alarm is raised, the deployment is rolled back.
   Until the deployment ends, the previous version keeps its instances.

* **Paused** at first: an endpoint costs money every hour. Unpause the DAG when you want one, and trigger it once. If
the champion changes while the DAG is paused again, the change starts a run when you unpause it.
* **A release was rolled back by an alarm**: the task fails, with the alarm and its reason. The registry's champion
stays: roll it back, too, with `{model}_rollback`, or correct the cause and clear the task.
* **By hand**: trigger the DAG, with a `version` or without. `serving` replaces values of the section for this run, for
example `{{"wait_s": 60}}`.
* **Return to the previous version**: if the version is the one that the endpoint served before its present one, it is
deployed at once, without alarms and without a check of the budget.
* **Never two at once**: the next run waits.
* `python -m pipelines undeploy --model {model}` deletes the endpoint.
"""


def create_deployment_dag(*, model: str) -> DAG:
    """Create the DAG MODEL_deploy. Each change of the champion starts it, by an event of the asset MODEL_champion.

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
            "serving": Param(
                None,
                type=["null", "object"],
                description="Values that replace those of section serving of params.yaml in this run.",
            ),
        },
        default_args=build_default_args("ml", execution_timeout=dt.timedelta(minutes=30)),
    ) as dag:
        fields = {"model": model, "serving": "{{ (params.serving or {}) | tojson }}"}
        shadow = ShadowOperator(task_id="shadow", version="{{ params.version or '' }}", **fields)
        # Deploy the version that was the shadow. If there is a new champion by now, the next run deploys that one.
        DeployOperator(task_id="deploy", version=shadow.output["version"], trigger_rule="none_failed", **fields)
    return dag
