"""flights_ingest: a day of flights, staged, judged and published."""

import datetime as dt

from airflow.sdk import DAG, Asset, CronPartitionTimetable
from leeway.default_args import default_args
from leeway.operators.ingest import IngestOperator
from leeway.operators.validate import ValidateOperator

DOC = """
### A day of flights, a partition of the lake

`ingest` stages the flights that were scheduled to depart on the run's day, with the weather at their origin and their
plane. `validate` judges the day by `expectations/flights.json`: a critical failure leaves the day unpublished, its rows
in `flights_raw` and what was found on the page behind the task's button *Data docs* (tab Details).

* **Backfill**: any range of 2013; days run side by side; one run again changes nothing unless its source changed.
* **Late data**: a run again of a day whose source changed publishes it anew; only then has the asset `flights` an
  event, which says what changed.
* **A day was refused**: mend the source, clear the run.
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
    default_args=default_args("data"),
):
    ingest = IngestOperator(task_id="ingest", dataset="flights")
    validate = ValidateOperator(
        task_id="validate", dataset="flights", asset=Asset(name="flights", uri="x-leeway://lake/flights")
    )
    ingest >> validate
