"""Create the DAG that trains a model, judges the candidate, and promotes it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronTriggerTimetable, Param, chain

from leeway.default_args import build_default_args
from leeway.operators.approval import PromotionApprovalOperator
from leeway.operators.dvc_repro import DvcReproOperator
from leeway.operators.evaluate import EvaluateOperator
from leeway.operators.gate import GateOperator
from leeway.operators.guard import GuardOperator
from leeway.operators.promote import PromoteOperator
from leeway.operators.record_outcome import RecordOutcomeOperator
from leeway.operators.spot_training import SpotTrainingOperator

DOC = """
### Train, evaluate, judge and promote a model, as of a day

A training as of day D sees only rows whose label was known before D, so a backfill over months is a walk-forward
backtest.

1. `guard` decides whether the training may start. It can hold back trainings that drift or the schedule requests.
2. `preprocess` pins the window and builds its features with DVC.
3. `train` runs on SageMaker managed spot (drydock on a laptop).
4. `evaluate` measures the model on the holdout and registers it as a candidate.
5. `gate` judges the candidate. If it does not pass, `approve` and `promote` are skipped, unless a person has to decide.
6. `approve` asks a person for approval, if section `gate` of `params.yaml` says so.
7. `promote` makes the candidate the champion. `record_outcome` records how the training ended, even if a task failed.

**What starts a run**

* A person: trigger the DAG with `as_of`.
* Drift: an event of the asset `{model}_drift` with `extra={{"as_of": ..., "reason": ..., "drifted_columns": [...]}}`.
* The schedule: by default the first day of each month, if the last training is at least `max_age_days` old
(params.yaml, section `guard`).
* A backfill: it promotes nothing unless `promote_in_backfill` is set, as a param or in params.yaml. Use
`--max-active-runs 1` to keep the order.
"""


def create_training_dag(
    *,
    model: str,
    dataset: str,
    start: dt.datetime,
    end: dt.datetime | None,
    schedule: str,
    training: Mapping[str, Any],
) -> DAG:
    """Create the DAG MODEL_train. The schedule, a person, or an event of the asset MODEL_drift starts it.

    Args:
        model: registered model.
        dataset: dataset of the model.
        start: first day of the schedule.
        end: last day of the schedule; None: without end.
        schedule: cron expression, in UTC, of the trainings that the calendar starts.
        training: arguments of SpotTrainingOperator, such as instance_type and max_run_s.
    """
    with _create_empty_dag(model, start, end, schedule) as dag:
        guard = GuardOperator(task_id="guard", dataset=dataset, model=model)
        preprocess = create_preprocess_task(model, guard)
        train = SpotTrainingOperator(task_id="train", model=model, **build_inputs(preprocess), **training)
        create_tasks_after_training(model, dataset, guard, preprocess, train, "{{ params.promote_in_backfill }}")
    return dag


def create_preprocess_task(model: str, guard: GuardOperator) -> DvcReproOperator:
    """Create the task that pins the window of the training, and builds its features."""
    return DvcReproOperator(
        task_id="preprocess",
        model=model,
        targets=["preprocess"],
        refresh=["snapshot"],
        overrides={"snapshot": {"missing": "fail"}},
        window=guard.output["window"],
    )


def build_inputs(preprocess: DvcReproOperator) -> dict[str, Any]:
    """Return the arguments `channels` and `code` of a task that trains. The holdout is not a channel."""
    workspace = preprocess.output["workspace"]
    channels = {name: f"{workspace}/data/features/{name}" for name in ("train", "validation")}
    return {"channels": channels, "code": workspace}


def create_tasks_after_training(
    model: str,
    dataset: str,
    guard: GuardOperator,
    preprocess: DvcReproOperator,
    train: SpotTrainingOperator,
    promote_in_backfill: str | None = None,
) -> None:
    """Create the tasks that judge and promote the trained model, and the dependencies between all tasks of the DAG.

    Args:
        model: registered model.
        dataset: dataset of the model.
        guard: decides whether the training may start; `record_outcome` is its teardown.
        preprocess: builds the features.
        train: trains the model.
        promote_in_backfill: template that says whether a backfill may promote; None: params.yaml decides.
    """
    workspace = preprocess.output["workspace"]
    evaluate = EvaluateOperator(
        task_id="evaluate", dataset=dataset, workspace=workspace, training=train.output, model=model
    )
    version = evaluate.output["version"]
    gate = GateOperator(task_id="gate", dataset=dataset, workspace=workspace, model=model, version=version)
    approve = PromotionApprovalOperator(task_id="approve", verdict=gate.output)
    promote = PromoteOperator(
        task_id="promote",
        model=model,
        version=version,
        verdict=gate.output["verdict"],
        promote_in_backfill=promote_in_backfill,
    )
    record_outcome = RecordOutcomeOperator(
        task_id="record_outcome", model=model, version=gate.output["version"]
    ).as_teardown(setups=guard)
    chain(guard, preprocess, train, evaluate, gate, approve, promote, record_outcome)


def _create_empty_dag(model: str, start: dt.datetime, end: dt.datetime | None, schedule: str) -> DAG:
    return DAG(
        dag_id=f"{model}_train",
        doc_md=DOC.format(model=model),
        description=f"Trains, evaluates, judges and promotes the model {model} as of a day.",
        schedule=AssetOrTimeSchedule(
            timetable=CronTriggerTimetable(schedule, timezone="UTC"),
            assets=Asset(name=f"{model}_drift", uri=f"x-leeway://drift/{model}"),
        ),
        start_date=start,
        end_date=end,
        catchup=False,
        max_active_runs=2,
        tags=["leeway", model, "training"],
        params={
            "as_of": Param(
                None,
                type=["null", "string"],
                format="date",
                description="Moment of the training. Null: as_of of the drift event, or else the run's logical date.",
            ),
            "promote_in_backfill": Param(
                None,
                type=["null", "boolean"],
                description="Whether a backfill may promote. Null: params.yaml decides.",
            ),
        },
        default_args=build_default_args("ml", retries=2, execution_timeout=dt.timedelta(hours=1)),
    )
