"""Create the DAGs of a model's lifecycle, by one call in a file of dags/.

MODEL_score and MODEL_monitor are paused at first, because they need a champion.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow.sdk import DAG

from leeway.lifecycle.ingestion_dag import Unit, create_ingestion_dag, require_unit
from leeway.lifecycle.monitoring_dag import create_monitoring_dag
from leeway.lifecycle.rollback_dag import create_rollback_dag
from leeway.lifecycle.scoring_dag import create_scoring_dag
from leeway.lifecycle.training_dag import create_training_dag
from pipelines import params
from pipelines.errors import SpecError
from pipelines.settings import settings

__all__ = ["create_ingestion_dag", "lifecycle_dags"]

SCHEDULES = {"hour": "0 * * * *", "day": "0 0 * * *", "month": "0 0 1 * *"}
"""Default schedule of the ingestion, by unit of the partitions."""


def lifecycle_dags(
    *,
    model: str,
    start: dt.datetime,
    end: dt.datetime | None = None,
    schedule: str = "",
    train_schedule: str = "0 0 1 * *",
    dataset: str = "",
    days_of: str = "",
    partition: Unit = "day",
    **training: Any,
) -> list[DAG]:
    """Create the DAGs of a model: DATASET_ingest, MODEL_train, MODEL_score, MODEL_monitor and MODEL_rollback.

    A dataset with partitions by month has no MODEL_monitor, because drift of months is not decided.

    Args:
        model: registered model. Its parameters are those of models/MODEL/params.yaml.
        start: first day of the data.
        end: last day of the data; None: without end.
        schedule: cron expression, in UTC, of the time at which the day before is complete: it is ingested, and drift up
            to it is decided. One run a day; for partitions by hour or month, one run an hour or a month, and drift of
            hours is decided at midnight. By default 00:00, the first minute of the hour, or the first day of the month.
        train_schedule: cron expression, in UTC, of the trainings that the calendar starts.
        dataset: dataset of the model; by default, the one in models/MODEL/params.yaml, which is then read whenever
            Airflow parses the DAGs.
        days_of: other dataset whose days the model uses. Another call creates its DATASET_ingest.
        partition: unit of the dataset's partitions, as the dataset has: hour, day or month.
        training: arguments of SpotTrainingOperator, such as instance_type, max_run_s, max_wait_s and entry_point.

    Returns:
        The DAGs. Airflow finds them even if they are not assigned to a variable.

    Raises:
        SpecError: the model has no file of parameters, the file names no dataset, or `partition` is unknown. A retry
            cannot help.
    """
    dataset = dataset or _read_dataset(model)
    require_unit(partition)
    schedule, names = schedule or SCHEDULES[partition], {"model": model, "dataset": dataset}
    dags = [
        create_training_dag(**names, start=start, end=end, schedule=train_schedule, training=training),
        create_scoring_dag(**names, days_of=days_of or dataset, start=start),
        create_rollback_dag(model=model),
    ]
    if partition != "month":
        daily_schedule = schedule if partition == "day" else SCHEDULES["day"]
        dags.append(create_monitoring_dag(**names, start=start, end=end, schedule=daily_schedule))
    if not days_of:
        dags.append(create_ingestion_dag(dataset=dataset, start=start, end=end, schedule=schedule, partition=partition))
    return dags


def _read_dataset(model: str) -> str:
    dataset = params.load_section(settings().project, "snapshot", model).get("dataset", "")
    if not dataset:
        message = f"the parameters of model {model} name no dataset."
        raise SpecError(message, "Set `dataset` in section `snapshot` of its params.yaml, or give `dataset`.")
    return str(dataset)
