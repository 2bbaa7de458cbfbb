"""Create the DAG that writes the values of a published day's lookups to the online store."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import DAG

from leeway.default_args import build_default_args
from leeway.lifecycle.publication import build_publication_timetable
from leeway.operators.materialize import MaterializeOperator

DOC = """
### Write looked-up features to the online store

Each event of the asset `{rows_from}` starts a run: there is one when a day is published, and one each time it is
published again. `materialize` writes the values of the day's lookups to SageMaker Feature Store, where the model server
reads them.

* **Paused** at first: it needs AWS, or drydock.
* **The newest value of a key wins.** Runs may be repeated, run at the same time, or be for an old day: a later day
replaces an earlier one, and of one day the last publication counts.
* **Days that were published before**: trigger the DAG with the day as logical date, or run
`python -m pipelines materialize --model {model}`, which writes the newest days.
* **`{dataset}` has no lookups**: the task fails, and says so. They are declared in the dataset's package.
"""


def create_materialization_dag(*, model: str, dataset: str, rows_from: str, start: dt.datetime) -> DAG:
    """Create the DAG MODEL_materialize. An event of the asset ROWS_FROM starts it when a day is published.

    Args:
        model: registered model whose server reads the values.
        dataset: dataset with the lookups.
        rows_from: dataset whose published days are written: `dataset` itself, or the dataset whose rows it uses.
        start: first day.
    """
    with DAG(
        dag_id=f"{model}_materialize",
        doc_md=DOC.format(model=model, dataset=dataset, rows_from=rows_from),
        description=f"Writes the looked-up features of a published day of {rows_from} to the online store.",
        schedule=build_publication_timetable(rows_from),
        start_date=start,
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=4,
        tags=["leeway", model, "serving"],
        default_args=build_default_args("data"),
    ) as dag:
        MaterializeOperator(task_id="materialize", dataset=dataset, model=model)
    return dag
