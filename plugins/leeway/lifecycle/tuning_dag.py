"""Create the DAG with which a person searches for better hyperparameters, and trains with them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from leeway.lifecycle.manual_dag import create_manual_dag
from leeway.lifecycle.training_dag import build_inputs, create_preprocess_task, create_tasks_after_training
from leeway.operators.guard import GuardOperator
from leeway.operators.spot_training import SpotTrainingOperator
from leeway.operators.tuning import TuningOperator

DOC = """
### Search for hyperparameters, and train with the best ones

Trigger the DAG with `as_of` and `why`. Nothing else starts it, since many trials cost money.

1. `guard` records the training, as in `{model}_train`. It never holds back a training that a person started.
2. `preprocess` pins the window and builds its features with DVC.
3. `tune` runs the trials of section `tune` of the model's parameters in a SageMaker tuning job (drydock on a laptop),
   on folds of the training window. No trial reads the holdout. All trials together must fit into `budget_usd` and
   into the month's budget.
4. `train` trains once with the winner's hyperparameters on the whole window.
5. `evaluate`, `gate`, `approve` and `promote` are those of `{model}_train`. The gate's report says how many trials ran,
   and shows the best trial beside its refit.

* **A task failed, or was cleared**: the trials that have ended are not paid for again.
* **Keep the winner**: later trainings of `{model}_train` use params.yaml. The result of `tune` has the hyperparameters.
"""
TRAINING_ONLY_ARGUMENTS = (
    *("instance_type", "instance_types", "instance_count", "distribution", "sharded_channels", "on_no_capacity"),
    *("max_run_s", "max_wait_s", "budget_usd", "config"),
)
"""Arguments of SpotTrainingOperator that trials do not share: section `tune` has the limits of a trial, and the other
arguments are for one large training."""


def create_tuning_dag(*, model: str, dataset: str, training: Mapping[str, Any]) -> DAG:
    """Create the DAG MODEL_tune. A person starts it.

    Args:
        model: registered model. Section `tune` of its parameters is the plan.
        dataset: dataset of the model.
        training: arguments of SpotTrainingOperator; TuningOperator gets those that trials share.
    """
    shared_arguments = {name: value for name, value in training.items() if name not in TRAINING_ONLY_ARGUMENTS}
    with _create_empty_dag(model) as dag:
        request = {"as_of": "{{ params.as_of }}", "trigger": "manual", "reason": "{{ params.why }}"}
        guard = GuardOperator(task_id="guard", dataset=dataset, model=model, request={**request, "drifted_columns": []})
        preprocess = create_preprocess_task(model, guard)
        inputs = build_inputs(preprocess)
        tune = TuningOperator(
            task_id="tune",
            model=model,
            plan={"trials": "{{ params.trials }}"},
            warm_start="{{ params.warm_start }}",
            **inputs,
            **shared_arguments,
        )
        train = SpotTrainingOperator(task_id="train", model=model, tuning=tune.output["record"], **inputs, **training)
        create_tasks_after_training(model, dataset, guard, preprocess, train)
    return dag


def _create_empty_dag(model: str) -> DAG:
    return create_manual_dag(
        f"{model}_tune",
        doc=DOC.format(model=model),
        description=f"Searches for hyperparameters of {model}, trains with the best ones, judges and promotes.",
        tags=[model, "training"],
        params={
            "as_of": Param(type="string", format="date", description="Moment of the training."),
            "trials": Param(
                None, type=["null", "integer"], minimum=1, description="Number of trials. Null: params.yaml decides."
            ),
            "warm_start": Param(
                None,
                type=["null", "string"],
                description="Ended tuning job whose trials the search learns from; not with hyperband or grid.",
            ),
        },
        execution_timeout=dt.timedelta(hours=1),
    )
