"""flights_monitor: has what the champion scored drifted, up to a day? Where it has, flights_train is to retrain."""

import datetime as dt

from airflow.sdk import DAG, Asset, CronTriggerTimetable, Param
from leeway.default_args import default_args
from leeway.operators.drift import DriftSensor

DOC = """
### Drift, a day at a time

`drift` waits for the profiles that `flights_score` makes, holds those of the window up to the run's day against the
reference of the champion of that day, and decides by `params.yaml`, section `drift`. On drift the asset `flights_drift`
has an event with the moment to retrain as of, the reason and the worst columns: `flights_train` starts on it. No drift
is a skip. What was seen is behind the task's button *Drift* (tab Details), and in the lake's table `drift_results`.

* **Paused** at first, as `flights_score` is: without profiles each run would wait for them, and fail.
* **By hand**: trigger it with a day; unlike a backfill it may retrain.
* **Backfill**: any range of days that were scored; decides as the daily runs would have. It retrains only with the
param `retrain_in_backfill`, or where params.yaml says so.
* **An alarm lasts** until the data come back or a new champion is there: each day has its event. What keeps the loop
from running away is in `flights_train`.
* **Profiles are missing** after six hours: the run fails and names the days.
"""

with DAG(
    dag_id="flights_monitor",
    doc_md=DOC,
    description="Decides whether what the champion of flights scored has drifted, and asks for a retraining.",
    # Not by partitions: events of runs with a partition key do not start DAGs that have none, as flights_train.
    schedule=CronTriggerTimetable("0 0 * * *", timezone="UTC"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    end_date=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=4,
    tags=["leeway", "flights", "drift"],
    params={
        "partition": Param(None, type=["null", "string"], format="date", description="Day; null: that of the run."),
        "retrain_in_backfill": Param(None, type=["null", "boolean"], description="Null: as params.yaml says."),
    },
    default_args=default_args("ml"),
):
    DriftSensor(
        task_id="drift",
        dataset="flights",
        model_name="flights",
        partition="{{ params.partition or ds | default('') }}",
        asset=Asset(name="flights_drift", uri="x-leeway://drift/flights"),
        in_backfill="{{ params.retrain_in_backfill }}",
    )
