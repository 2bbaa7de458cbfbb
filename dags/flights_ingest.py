"""flights_ingest: ingest, validate and publish a day of flights."""

import datetime as dt

from airflow.sdk import DAG, Asset, CronPartitionTimetable, Param
from leeway.default_args import build_default_args
from leeway.operators.ingest import IngestOperator
from leeway.operators.validate import ValidateOperator

DOC = """
### Ingest, validate and publish a day of flights

`ingest` reads the flights that were scheduled to depart on the run's day, with the weather at their origin and their
plane. `validate` checks the day against `expectations/flights.json` and publishes it. After a critical failure the day
is not published: its rows stay in `flights_raw`, and the task's button *Data docs* (tab Details) opens the results.

* **Backfill**: any range of 2013. Days run in parallel. A second run of a day changes nothing if the source is equal.
* **Late data**: if the source of a day changed, run the day again. If its rows changed, it is published again, and
the asset `flights` gets an event with the numbers of added, removed and changed rows.
* **A day was refused**: correct the source, then clear the run.
* **A day has fewer rows than before, or ends early**: it is refused, since its file may have been cut. If the day is
complete, run the day again with the param `allow_shrink`.
"""

with DAG(
    dag_id="flights_ingest",
    doc_md=DOC,
    description="Ingests, validates and publishes a day of flights.",
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    end_date=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=8,
    tags=["leeway", "flights", "data"],
    params={
        "allow_shrink": Param(
            None,
            type=["null", "boolean"],
            description="Publish days that shrink or end early. Null: params.yaml decides.",
        )
    },
    default_args=build_default_args("data"),
):
    ingest = IngestOperator(task_id="ingest", dataset="flights")
    validate = ValidateOperator(
        task_id="validate",
        dataset="flights",
        allow_shrink="{{ params.allow_shrink }}",
        asset=Asset(name="flights", uri="x-leeway://lake/flights"),
    )
    ingest >> validate
