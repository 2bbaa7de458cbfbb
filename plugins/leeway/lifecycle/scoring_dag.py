"""Create the DAG that scores a published day with the champion, and joins the labels when they are known."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import DAG

from leeway.default_args import build_default_args
from leeway.lifecycle.publication import build_publication_timetable
from leeway.operators.batch_score import BatchScoreOperator
from leeway.operators.outcomes import OutcomesOperator
from leeway.operators.profile import ProfileOperator

DOC = """
### Score a published day

Each event of the asset `{rows_from}` starts a run: there is one when a day is published, and one each time it is
published again. `score` builds the day's features as `preprocess` does, and writes the champion's predictions to the
table `{dataset}_predictions`. `outcomes` joins the known labels to them, and writes the result to `{dataset}_outcomes`.
{profile}

* **Paused** at first: unpause it when there is a champion. Before that, each run would be skipped.
* **No champion was trained as of the day or earlier**: `score` is skipped, and its log says so.
* **A day of more than a million rows** is scored by SageMaker Batch Transform, with the same predictions.
* **Late labels**: if the day is published again because its labels are known now, the run leaves the predictions as
they are, and joins the labels to them.
* **Days that were published before there was a champion, or while this DAG was paused**: trigger this DAG with the
day as logical date, or run `python -m pipelines score --model {model}`. A schedule on assets has no backfill.
"""
PROFILE_DOC = "`profile` counts the day's values by bins, and writes the counts to `profiles` for drift detection."
REQUESTS_DOC = "The scores have no profile: drift is decided on the requests, which `{model}_serving_monitor` profiles."


def create_scoring_dag(
    *, model: str, dataset: str, rows_from: str, start: dt.datetime, has_profiles: bool = True
) -> DAG:
    """Create the DAG MODEL_score. An event of the asset ROWS_FROM starts it when a day is published.

    Args:
        model: registered model.
        dataset: dataset of the model.
        rows_from: dataset whose published days are scored: `dataset` itself, or the dataset whose rows it uses.
        start: first day.
        has_profiles: whether the scores are profiled, so that MODEL_monitor decides on their drift.
    """
    profile_doc = PROFILE_DOC if has_profiles else REQUESTS_DOC.format(model=model)
    with DAG(
        dag_id=f"{model}_score",
        doc_md=DOC.format(model=model, dataset=dataset, rows_from=rows_from, profile=profile_doc),
        description=f"Scores a published day of {rows_from} with the champion of {model}.",
        schedule=build_publication_timetable(rows_from),
        start_date=start,
        catchup=False,
        is_paused_upon_creation=True,  # without a model, each published day would start a run that does nothing
        max_active_runs=4,
        tags=["leeway", model, "scoring"],
        default_args=build_default_args("ml"),
    ) as dag:
        score = BatchScoreOperator(task_id="score", dataset=dataset, model=model)
        outcomes = OutcomesOperator(task_id="outcomes", dataset=dataset, model=model)
        score >> outcomes
        if has_profiles:
            score >> ProfileOperator(
                task_id="profile", model=model, version=score.output["version"], rows=score.output["rows"]
            )
    return dag
