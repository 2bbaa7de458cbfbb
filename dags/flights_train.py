"""flights_train: trains as of a day, gates the candidate and promotes it."""

import datetime as dt

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronTriggerTimetable, Param
from leeway.macros import as_of
from leeway.operators.dvc_repro import DvcReproOperator
from leeway.operators.evaluate import EvaluateOperator
from leeway.operators.gate import GateOperator
from leeway.operators.promote import PromoteOperator
from leeway.operators.spot_training import SpotTrainingOperator

DOC = """
### Train, evaluate, gate, promote: as of a day

Training as of D sees only flights whose label was known before D, so a backfill over months is a walk-forward backtest.
`preprocess` pins the window and builds its features in a DVC workspace; `train` runs on SageMaker managed spot (drydock
on a laptop); `evaluate` measures the holdout and registers a candidate; `gate` judges it by `params.yaml` and against
the champion, and skips `promote` where the answer is no.

* **By hand**: trigger with `as_of` (YYYY-MM-DD). * **By drift**: an event of the asset `flights_drift` with
`extra={"as_of": ..., "reason": ...}`. * **By time**: the first of each month. * **Backfill**: moves no alias unless
`promote_in_backfill`; `--max-active-runs 1`, so that each is judged against the one before it.
"""
AS_OF = "{{ as_of(params, dag_run, triggering_asset_events) }}"
WORKSPACE = "{{ ti.xcom_pull('preprocess')['workspace'] }}"
JOB = "{{ ti.xcom_pull('train')['%s'] }}"
COSTS = ("training_s", "billable_s", "cost_usd", "price_usd_h", "saving", "interruptions", "lost_s", "capacity_s")
MODEL = "flights"
VERSION = "{{ ti.xcom_pull('evaluate')['version'] }}"

with DAG(
    dag_id="flights_train",
    doc_md=DOC,
    description="Trains, evaluates, gates and promotes the flights model as of a day.",
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("0 0 1 * *", timezone="UTC"),
        assets=Asset(name="flights_drift", uri="leeway://drift/flights"),
    ),
    start_date=dt.datetime(2013, 2, 1, tzinfo=dt.UTC),
    end_date=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=2,
    tags=["leeway", "flights", "training"],
    params={
        "as_of": Param(None, type=["null", "string"], format="date", description="Moment of training."),
        "promote_in_backfill": Param(None, type=["null", "boolean"], description="Null: as params.yaml says."),
    },
    user_defined_macros={"as_of": as_of},
    default_args={
        "owner": "ml",
        "retries": 2,
        "retry_delay": dt.timedelta(seconds=15),
        "retry_exponential_backoff": True,
        "max_retry_delay": dt.timedelta(minutes=15),
        "execution_timeout": dt.timedelta(hours=1),
    },
):
    preprocess = DvcReproOperator(
        task_id="preprocess",
        targets=["preprocess"],
        refresh=["snapshot"],
        overrides={"snapshot": {"as_of": AS_OF, "missing": "fail"}},
    )
    train = SpotTrainingOperator(
        task_id="train",
        entry_point="pipelines/flights/training.py",
        bundle="pipelines/flights/bundle.txt",
        channels={name: f"{WORKSPACE}/data/features/{name}" for name in ("train", "validation")},
        instance_type="ml.m5.large",
        model=MODEL,
        max_run_s=3_600,
        max_wait_s=7_200,
        check_interval_s=5,
    )
    evaluate = EvaluateOperator(
        task_id="evaluate",
        dataset="flights",
        workspace=WORKSPACE,
        model=JOB % "model",
        record=JOB % "record",
        training_job=JOB % "training_job",
        register_as=MODEL,
        lineage={
            "training_job_arn": JOB % "training_job_arn",
            "instance_type": JOB % "instance_type",
            **{name: JOB % name for name in COSTS},
            "dag_run": "{{ dag.dag_id }}/{{ run_id }}",
        },
    )
    gate = GateOperator(task_id="gate", dataset="flights", workspace=WORKSPACE, model_name=MODEL, version=VERSION)
    promote = PromoteOperator(
        task_id="promote",
        model_name=MODEL,
        version=VERSION,
        verdict="{{ ti.xcom_pull('gate')['verdict'] }}",
        promote_in_backfill="{{ params.promote_in_backfill }}",
    )
    preprocess >> train >> evaluate >> gate >> promote
