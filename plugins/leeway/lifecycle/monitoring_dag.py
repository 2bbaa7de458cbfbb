"""Create the DAG that decides whether the data that the champion scored has drifted, and if so starts a retraining."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import DAG, Asset, CronTriggerTimetable, Param

from leeway.default_args import build_default_args
from leeway.operators.drift import DriftSensor

DOC = """
### Detect drift, each day

`drift` waits for the profiles that `{model}_score` writes. (If the argument `drift_of` of `create_lifecycle_dags` is
"requests", `{model}_serving_monitor` writes them.) The window ends with the run's day (of a scheduled run: the day
before). The task adds the profiles of the window, compares the sum with the reference of the champion, and decides by
section `drift` of `params.yaml`. If the champion was trained as of a day after the run's, the reference is that of the
version that was champion on the run's day. If there is drift, and `retrain_on` (same section) says that such drift
retrains, the asset
`{model}_drift` gets an event with the `as_of` of the retraining, the reason and the drifted columns. The event starts
`{model}_train`. Without an event the task is skipped. The task's button *Drift* (tab Details) and the lake's table
`drift_results` show the findings.

* **Without drift** the asset gets an event, too, if the last training is at least `max_age_days` old (params.yaml,
section `guard`). If it used fewer days of data, that number of days counts instead.
* **Paused** at first, like `{model}_score`: without profiles each run would wait six hours for them, and fail.
* **By hand**: trigger the DAG with a `partition`, a day. Such a run may retrain, unlike a backfill.
* **Backfill**: any range of days that were scored. Its runs decide as the daily runs would have. They retrain only with
the param `retrain_in_backfill`, or if params.yaml allows it.
* **Drift lasts** until the data are like the reference again, or there is a new champion. Until then, there is an event
each day. The guard of `{model}_train` limits the trainings.
* **Profiles are missing** after six hours: the run fails, and its error names the days.
"""

PARTITION = (
    "{{ params.partition or "
    "(macros.ds_add(ds, -1) if ds is defined and dag_run.run_type == 'scheduled' else ds | default('')) }}"
)
"""Template of the last day of the window. For a scheduled run, this is the day before the run, which DATASET_ingest
publishes at the same time."""

PARAMS = {
    "partition": Param(
        None,
        type=["null", "string"],
        format="date",
        description="Last day of the window. Null: the run's day; for a scheduled run, the day before.",
    ),
    "retrain_in_backfill": Param(
        None,
        type=["null", "boolean"],
        description="Whether drift in a backfill retrains. Null: params.yaml decides.",
    ),
}


def create_monitoring_dag(
    *, model: str, dataset: str, start: dt.datetime, end: dt.datetime | None, schedule: str
) -> DAG:
    """Create the DAG MODEL_monitor. Its event of the asset MODEL_drift starts MODEL_train.

    Args:
        model: registered model.
        dataset: dataset of the model.
        start: first day.
        end: last day; None: without end.
        schedule: cron expression, in UTC, of the decisions.
    """
    with DAG(
        dag_id=f"{model}_monitor",
        doc_md=DOC.format(model=model),
        description=f"Decides whether the data that the champion of {model} scored have drifted, and retrains if so.",
        # A partition timetable would give the runs a partition key. MODEL_train is a DAG without partitions, and events
        # of runs with a key do not start it.
        schedule=CronTriggerTimetable(schedule, timezone="UTC"),
        start_date=start,
        end_date=end,
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=4,
        tags=["leeway", model, "drift"],
        params=PARAMS,
        default_args=build_default_args("ml"),
    ) as dag:
        DriftSensor(
            task_id="drift",
            dataset=dataset,
            model=model,
            partition=PARTITION,
            asset=Asset(name=f"{model}_drift", uri=f"x-leeway://drift/{model}"),
            retrain_in_backfill="{{ params.retrain_in_backfill }}",
        )
    return dag
