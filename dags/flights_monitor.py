"""flights_monitor: decide whether the data that the champion scored have drifted; on drift, start a retraining."""

import datetime as dt

from airflow.sdk import DAG, Asset, CronTriggerTimetable, Param
from leeway.default_args import build_default_args
from leeway.operators.drift import DriftSensor

DOC = """
### Detect drift, each day

`drift` waits for the profiles that `flights_score` writes. It adds the profiles of the window that ends with the run's
day, compares the sum with the reference of that day's champion, and decides by `params.yaml`, section `drift`. On drift
that requests a training (`retrain_on`), the asset `flights_drift` gets an event with the `as_of` of the retraining, the
reason and the drifted columns. The event starts `flights_train`. Otherwise the task is skipped. The task's button
*Drift* (tab Details) and the lake's table `drift_results` show the findings.

* **Without drift** it requests a training, too, where the last one is older than `max_age_days` (params.yaml, guard).
* **Paused** at first, like `flights_score`: without profiles each run would wait six hours for them, and fail.
* **By hand**: trigger the DAG with a day. Such a run may retrain, unlike a backfill.
* **Backfill**: any range of days that were scored. It decides as the daily runs would have. It retrains only with the
param `retrain_in_backfill`, or if params.yaml allows it.
* **Drift lasts** until the data are like the reference again, or there is a new champion. Until then, each day emits an
event. The guard of `flights_train` limits the trainings.
* **Profiles are missing** after six hours: the run fails, and its error names the days.
"""

with DAG(
    dag_id="flights_monitor",
    doc_md=DOC,
    description="Decides whether the data that the champion scored have drifted, and starts a retraining if so.",
    # Not a partition timetable: flights_train is a DAG without partitions. An event of a run with a partition key would
    # not start it.
    schedule=CronTriggerTimetable("0 0 * * *", timezone="UTC"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    end_date=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=4,
    tags=["leeway", "flights", "drift"],
    params={
        "partition": Param(
            None, type=["null", "string"], format="date", description="Last day of the window. Null: the run's day."
        ),
        "retrain_in_backfill": Param(
            None,
            type=["null", "boolean"],
            description="Whether drift in a backfill retrains. Null: params.yaml decides.",
        ),
    },
    default_args=build_default_args("ml"),
):
    DriftSensor(
        task_id="drift",
        dataset="flights",
        model_name="flights",
        partition="{{ params.partition or ds | default('') }}",
        asset=Asset(name="flights_drift", uri="x-leeway://drift/flights"),
        retrain_in_backfill="{{ params.retrain_in_backfill }}",
    )
