"""flights_train: train as of a day, judge the candidate, and promote it."""

import datetime as dt

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

A training as of day D sees only flights whose label was known before D, so a backfill over months is a walk-forward
backtest.

1. `guard` decides whether the training may start. It holds back trainings that drift starts too often.
2. `preprocess` pins the window and builds its features with DVC.
3. `train` runs on SageMaker managed spot (drydock on a laptop).
4. `evaluate` measures the model on the holdout and registers it as a candidate.
5. `gate` judges the candidate. If it does not pass, the tasks after it are skipped, unless a person has to decide.
6. `approve` asks a person, if `params.yaml` says so.
7. `promote` makes the candidate the champion. `record_outcome` records how the training ended, even if a task failed.

**What starts a run**

* A person: trigger the DAG with `as_of`.
* Drift: an event of the asset `flights_drift` with `extra={"as_of": ..., "reason": ..., "drifted_columns": [...]}`.
* The calendar: the first day of each month, if the last training is as old as `max_age_days` (params.yaml, guard).
* A backfill: it promotes nothing unless `promote_in_backfill` is set. Use `--max-active-runs 1` to keep the order.
"""

with DAG(
    dag_id="flights_train",
    doc_md=DOC,
    description="Trains, evaluates, judges and promotes the flights model as of a day.",
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("0 0 1 * *", timezone="UTC"),
        assets=Asset(name="flights_drift", uri="x-leeway://drift/flights"),
    ),
    start_date=dt.datetime(2013, 2, 1, tzinfo=dt.UTC),
    end_date=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=2,
    tags=["leeway", "flights", "training"],
    params={
        "as_of": Param(
            None,
            type=["null", "string"],
            format="date",
            description="Moment of the training. Null: as_of of the drift event, or else the run's logical date.",
        ),
        "promote_in_backfill": Param(None, type=["null", "boolean"], description="Null: params.yaml decides."),
    },
    default_args=build_default_args("ml", retries=2, execution_timeout=dt.timedelta(hours=1)),
):
    guard = GuardOperator(task_id="guard", dataset="flights", model_name="flights")
    preprocess = DvcReproOperator(
        task_id="preprocess",
        model_name="flights",
        targets=["preprocess"],
        refresh=["snapshot"],
        overrides={"snapshot": {"missing": "fail"}},
        window=guard.output["window"],
    )
    workspace = preprocess.output["workspace"]
    train = SpotTrainingOperator(
        task_id="train",
        channels={name: f"{workspace}/data/features/{name}" for name in ("train", "validation")},
        code=workspace,
        instance_type="ml.m5.large",
        model="flights",
        max_run_s=3_600,
        max_wait_s=7_200,
        check_interval_s=5,
    )
    evaluate = EvaluateOperator(
        task_id="evaluate", dataset="flights", workspace=workspace, training=train.output, register_as="flights"
    )
    version = evaluate.output["version"]
    gate = GateOperator(task_id="gate", dataset="flights", workspace=workspace, model_name="flights", version=version)
    approve = PromotionApprovalOperator(task_id="approve", verdict=gate.output)
    promote = PromoteOperator(
        task_id="promote",
        model_name="flights",
        version=version,
        verdict=gate.output["verdict"],
        promote_in_backfill="{{ params.promote_in_backfill }}",
    )
    record_outcome = RecordOutcomeOperator(
        task_id="record_outcome", model_name="flights", version=gate.output["version"]
    ).as_teardown(setups=guard)
    chain(guard, preprocess, train, evaluate, gate, approve, promote, record_outcome)
