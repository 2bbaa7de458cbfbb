"""The DAGs of a model's lifecycle, for a file of dags/ in which one call creates all of them.

MODEL_score and MODEL_monitor are paused at first, since they need a champion.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow.sdk import DAG

from leeway.lifecycle.ingestion_dag import create_ingestion_dag
from leeway.lifecycle.monitoring_dag import create_monitoring_dag
from leeway.lifecycle.rollback_dag import create_rollback_dag
from leeway.lifecycle.scoring_dag import create_scoring_dag
from leeway.lifecycle.training_dag import create_training_dag
from pipelines import params
from pipelines.errors import SpecError
from pipelines.settings import settings

__all__ = ["create_ingestion_dag", "lifecycle_dags"]


def lifecycle_dags(
    *,
    model: str,
    start: dt.datetime,
    end: dt.datetime | None = None,
    schedule: str = "0 0 * * *",
    train_schedule: str = "0 0 1 * *",
    dataset: str = "",
    with_ingestion: bool = True,
    **training: Any,
) -> list[DAG]:
    """Create the DAGs of a model: DATASET_ingest, MODEL_train, MODEL_score, MODEL_monitor and MODEL_rollback.

    Args:
        model: registered model. Its parameters are those of models/MODEL/params.yaml.
        start: first day of the data.
        end: last day of the data; None: without end.
        schedule: cron expression, in UTC: when a day is complete. It is ingested then, and drift is decided.
        train_schedule: cron expression, in UTC, of the trainings that the calendar starts.
        dataset: dataset of the model; by default that of models/MODEL/params.yaml, where Airflow parses DAGs.
        with_ingestion: whether to create DATASET_ingest: False for all but one of the models of a dataset.
        training: arguments of SpotTrainingOperator, such as instance_type, max_run_s, max_wait_s and entry_point.

    Returns:
        The DAGs; Airflow finds them without a variable.

    Raises:
        SpecError: the model has no file of parameters, or it names no dataset. A retry cannot help.
    """
    dataset = dataset or _read_dataset(model)
    dags = [create_ingestion_dag(dataset=dataset, start=start, end=end, schedule=schedule)] if with_ingestion else []
    names = {"model": model, "dataset": dataset}
    return [
        *dags,
        create_training_dag(**names, start=start, end=end, schedule=train_schedule, training=training),
        create_scoring_dag(**names, start=start),
        create_monitoring_dag(**names, start=start, end=end, schedule=schedule),
        create_rollback_dag(model=model),
    ]


def _read_dataset(model: str) -> str:
    dataset = params.load_section(settings().project, "snapshot", model).get("dataset", "")
    if not dataset:
        message = f"the parameters of model {model} name no dataset."
        raise SpecError(message, "Set `dataset` in section `snapshot` of its params.yaml, or give `dataset`.")
    return str(dataset)
