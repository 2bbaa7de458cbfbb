"""flights_score: score a published day of flights with the champion, and join its labels when they are known."""

import datetime as dt

from airflow.sdk import DAG, Asset, IdentityMapper, PartitionedAssetTimetable
from leeway.default_args import build_default_args
from leeway.operators.batch_score import BatchScoreOperator
from leeway.operators.outcomes import OutcomesOperator
from leeway.operators.profile import ProfileOperator

DOC = """
### Score a published day

Each event of the asset `flights` starts a run: there is one when a day is published, and one each time it is published
again. `score` builds the day's features as `preprocess` does, and writes the champion's predictions to the table
`flights_predictions`. `outcomes` joins the known labels to them, and writes the result to `flights_outcomes`. `profile`
counts the day's values by bins, and writes the counts to `profiles` for drift detection.

* **Paused** at first: unpause it when there is a champion. Until then each run would be skipped.
* **No champion that was trained as of the day or before**: `score` is skipped, and its log says so.
* **A day of more than a million rows** is scored by SageMaker Batch Transform, with the same predictions.
* **Labels** come a day later, when the day is published again: that run leaves the predictions as they are, and joins
the labels to them.
* **Days that were published before there was a champion, or while this DAG was paused**: trigger this DAG with the
day as logical date, or run `python -m pipelines score`. A schedule on assets has no backfill.
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
    is_paused_upon_creation=True,  # without a model, each published day would start a run that does nothing
    max_active_runs=4,
    tags=["leeway", "flights", "scoring"],
    default_args=build_default_args("ml"),
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
