"""Create the DAG weather_ingest: ingest, validate and publish a month of weather."""

import datetime as dt

from airflow.sdk import DAG, Asset, CronPartitionTimetable, Param
from leeway.default_args import build_default_args
from leeway.macros import get_last_day
from leeway.operators.backfill import BackfillOperator
from leeway.operators.ingest import MONTH

DOC = """
### Ingest a month of weather, day by day, in one task

A day of weather has only 72 rows. A task for each day would spend most of its time on starting processes.
`publish` ingests, validates (against `expectations/weather.json`) and publishes every day of the run's month that the
source has. If validation refuses a day, the task fails at its end; the other days are published.

* **Backfill**: any range of 2013.
* **Late data**: run the month again. The run reads every day again and publishes the days that changed. The asset
`weather` gets an event only if a day changed.
* **A day has fewer rows than before, or ends early**: it is refused, since its file may have been truncated. If the day
is complete, run the month again with the param `allow_shrink`.
* **By hand**: a manual run ingests the month of its logical date.
"""

with DAG(
    dag_id="weather_ingest",
    doc_md=DOC,
    description="Ingests, validates and publishes a month of weather.",
    schedule=CronPartitionTimetable("0 0 1 * *", timezone="UTC", run_offset=-1, key_format="%Y-%m"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    end_date=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=4,
    tags=["leeway", "flights", "weather", "data"],
    user_defined_macros={"get_last_day": get_last_day},
    params={
        "allow_shrink": Param(
            None,
            type=["null", "boolean"],
            description="Publish days that shrink or end early. Null: params.yaml decides.",
        )
    },
    default_args=build_default_args("data", execution_timeout=dt.timedelta(minutes=30)),
):
    BackfillOperator(
        task_id="publish",
        dataset="weather",
        first=f"{MONTH}-01",
        last="{{ get_last_day(partition_key or (ds | default(''))) }}",
        include_published=True,
        allow_shrink="{{ params.allow_shrink }}",
        on_absent="skip",
        asset=Asset(name="weather", uri="x-leeway://lake/weather"),
    )
