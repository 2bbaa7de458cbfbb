"""Create the DAG idle_sweep: find what runs in SageMaker although nobody uses it, and stop the kinds in `stop`."""

import datetime as dt

from airflow.sdk import DAG, CronTriggerTimetable, Param
from leeway.default_args import build_default_args
from leeway.operators.sweep_idle import IdleSweepOperator

DOC = """
### Find what runs although nobody uses it, each day

`sweep` lists notebook instances, Studio apps, endpoints and processing jobs that run in SageMaker and that nobody used
for some time. The task's log and its result name each, with the cost of a month. `sweep` stops nothing, unless the
param `stop` has kinds.

* **Paused** at first: it needs AWS, or drydock.
* **Stop**: look at the list of a run, then trigger the DAG with kinds in `stop`. To stop each day, set the default of
the param in dags/idle_sweep.py. The page docs/how-to/stop-what-is-idle.md says what a stop of each kind loses.
* **Never stopped**: what has the tag `leeway:keep`, endpoints that Leeway did not create, and what has no metric of its
use. They are listed, too.
* **endpoint_sweep** is the same sweep of endpoints alone.
"""
KINDS = ["notebook", "app", "endpoint", "processing"]
KINDS_SCHEMA = {"type": "array", "items": {"type": "string", "enum": KINDS}, "examples": KINDS, "uniqueItems": True}

with DAG(
    dag_id="idle_sweep",
    doc_md=DOC,
    description="Finds what runs in SageMaker although nobody uses it, and stops it if its kind is in param `stop`.",
    schedule=CronTriggerTimetable("50 0 * * *", timezone="UTC"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    tags=["leeway", "flights"],
    params={
        "kinds": Param(KINDS, **KINDS_SCHEMA, minItems=1, description="Kinds to check."),
        "idle_minutes": Param(1_440, type="integer", minimum=1, maximum=86_400, description="Minutes without a use."),
        "cpu_percent": Param(
            5.0,
            type="number",
            exclusiveMinimum=0,
            maximum=100,
            description="CPU from which a notebook instance or a processing job counts as used, percent of one core.",
        ),
        "stop": Param(
            [], **KINDS_SCHEMA, description="Kinds whose idle resources are stopped; others are only listed."
        ),
    },
    default_args=build_default_args("ml", execution_timeout=dt.timedelta(minutes=30)),
):
    IdleSweepOperator(
        task_id="sweep",
        kinds="{{ params.kinds }}",
        idle_minutes="{{ params.idle_minutes }}",
        cpu_percent="{{ params.cpu_percent }}",
        stop="{{ params.stop }}",
    )
