"""flights_score: a published day of flights, scored by the champion, and its labels joined where they are known."""

import datetime as dt

from airflow.sdk import DAG, Asset, IdentityMapper, PartitionedAssetTimetable
from leeway.default_args import default_args
from leeway.operators.batch_score import BatchScoreOperator
from leeway.operators.outcomes import OutcomesOperator
from leeway.operators.profile import ProfileOperator

DOC = """
### A published day, scored

Starts once for each event of the asset `flights`: a day that was published, or published anew. `score` builds the day's
features as `preprocess` does and keeps the champion's predictions in the table `flights_predictions`; `outcomes` joins
the labels that are known to them, in `flights_outcomes`; `profile` counts what was scored, in `profiles`, for drift.

* **Paused** at first: unpause it once there is a champion. Until then each published day would only be skipped.
* **No champion** that is of the day or before: `score` is skipped, and says so.
* **A day of more than a million rows** is scored by SageMaker Batch Transform, to the same predictions.
* **Labels** come a day later, with another publication of the day: that run finds the same predictions, and joins.
* **Days that were published before there was a champion, or while this DAG was paused**: trigger it with the
day as logical date, or `python -m pipelines score`; a schedule on assets has no backfill.
"""
MODEL = "flights"

with DAG(
    dag_id="flights_score",
    doc_md=DOC,
    description="Scores a published day of flights with the champion.",
    schedule=PartitionedAssetTimetable(
        assets=Asset(name="flights", uri="x-leeway://lake/flights"), default_partition_mapper=IdentityMapper()
    ),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,  # a backfill of a year before the first model would start 365 runs for nothing
    max_active_runs=4,
    tags=["leeway", "flights", "scoring"],
    default_args=default_args("ml"),
):
    score = BatchScoreOperator(task_id="score", dataset="flights", model_name=MODEL)
    outcomes = OutcomesOperator(task_id="outcomes", dataset="flights", model_name=MODEL)
    profile = ProfileOperator(
        task_id="profile",
        model_name=MODEL,
        version=score.output["version"],
        rows=score.output["rows"],
    )
    score >> [outcomes, profile]
