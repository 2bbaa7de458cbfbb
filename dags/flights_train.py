"""flights_train: trains as of a day, gates the candidate and promotes it."""

import datetime as dt

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronTriggerTimetable, Param, chain
from leeway.macros import as_of, asked
from leeway.notifiers.lifecycle import told
from leeway.operators.approval import PromotionApprovalOperator
from leeway.operators.dvc_repro import DvcReproOperator
from leeway.operators.evaluate import EvaluateOperator
from leeway.operators.gate import GateOperator
from leeway.operators.guard import GuardOperator
from leeway.operators.promote import PromoteOperator
from leeway.operators.settle import SettleOperator
from leeway.operators.spot_training import SpotTrainingOperator

DOC = """
### Train, evaluate, gate, promote: as of a day

Training as of D sees only flights whose label was known before D, so a backfill over months is a walk-forward backtest.
`guard` holds back what drift asks for too soon. `preprocess` pins the window and builds its features with DVC; `train`
runs on SageMaker managed spot (drydock on a laptop); `evaluate` registers a candidate; `gate` judges it, and skips what
follows where the answer is no; `approve` asks a person where `params.yaml` says so; `settle` records the end.

* **By hand**: with `as_of`. * **By drift**: an event with `extra={"as_of": ..., "reason": ..., "worst": [...]}`. * **By
time**: monthly. * **Backfill**: moves no alias unless `promote_in_backfill`; `--max-active-runs 1`: one after another.
"""
AS_OF = "{{ as_of(params, dag_run, triggering_asset_events) }}"
ASKED = "{{ asked(params, dag_run, triggering_asset_events)['%s'] }}"
WINDOW = {"as_of": AS_OF, "missing": "fail"}
WORKSPACE = "{{ ti.xcom_pull('preprocess')['workspace'] }}"
JOB = "{{ ti.xcom_pull('train')['%s'] }}"
COSTS = ("training_s", "billable_s", "cost_usd", "price_usd_h", "saving", "interruptions", "lost_s", "capacity_s")
TOLD = ("training_job_arn", "instance_type", *COSTS)
WHY = {name: ASKED % name for name in ("trigger", "reason", "worst")}
DRIFT = Asset(name="flights_drift", uri="x-leeway://drift/flights")
MODEL, VERSION = "flights", "{{ ti.xcom_pull('evaluate')['version'] }}"
JUDGED = "{{ (ti.xcom_pull('gate') or {}).get('version', '') }}"

with DAG(
    dag_id="flights_train",
    doc_md=DOC,
    description="Trains, evaluates, gates and promotes the flights model as of a day.",
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable("0 0 1 * *", timezone="UTC"), assets=DRIFT),
    start_date=dt.datetime(2013, 2, 1, tzinfo=dt.UTC),
    end_date=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=2,
    tags=["leeway", "flights", "training"],
    params={
        "as_of": Param(None, type=["null", "string"], format="date", description="Moment of training."),
        "promote_in_backfill": Param(None, type=["null", "boolean"], description="Null: as params.yaml says."),
    },
    user_defined_macros={"as_of": as_of, "asked": asked},
    default_args={
        **told(),
        "owner": "ml",
        "retries": 2,
        "retry_delay": dt.timedelta(seconds=15),
        "retry_exponential_backoff": True,
        "max_retry_delay": dt.timedelta(minutes=15),
        "execution_timeout": dt.timedelta(hours=1),
    },
):
    guard = GuardOperator(task_id="guard", dataset="flights", model_name=MODEL, as_of=AS_OF, **WHY)
    preprocess = DvcReproOperator(
        task_id="preprocess", targets=["preprocess"], refresh=["snapshot"], overrides={"snapshot": WINDOW}
    )
    train = SpotTrainingOperator(
        task_id="train",
        entry_point="pipelines/datasets/flights/training.py",
        bundle="pipelines/datasets/flights/bundle.txt",
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
        lineage={**{name: JOB % name for name in TOLD}, "dag_run": "{{ dag.dag_id }}/{{ run_id }}"},
    )
    gate = GateOperator(task_id="gate", dataset="flights", workspace=WORKSPACE, model_name=MODEL, version=VERSION)
    promote = PromoteOperator(
        task_id="promote",
        model_name=MODEL,
        version=VERSION,
        verdict="{{ ti.xcom_pull('gate')['verdict'] }}",
        promote_in_backfill="{{ params.promote_in_backfill }}",
    )
    settle = SettleOperator(task_id="settle", model_name=MODEL, version=JUDGED).as_teardown(setups=guard)
    chain(guard, preprocess, train, evaluate, gate, PromotionApprovalOperator(task_id="approve"), promote, settle)
