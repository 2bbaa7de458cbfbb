"""Create the DAGs of a model's lifecycle by one call in a file of dags/.

Airflow finds the DAGs even if the call's result is not assigned to a variable. Three DAGs are paused at first:
MODEL_score and MODEL_monitor, because they need a champion, and MODEL_deploy, because an endpoint costs money every
hour.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.definitions._internal.contextmanager import DagContext

from leeway.lifecycle.deployment_dag import create_deployment_dag
from leeway.lifecycle.ingestion_dag import Unit, create_ingestion_dag, require_unit
from leeway.lifecycle.monitoring_dag import create_monitoring_dag
from leeway.lifecycle.rollback_dag import create_rollback_dag
from leeway.lifecycle.scoring_dag import create_scoring_dag
from leeway.lifecycle.training_dag import create_training_dag
from pipelines import params
from pipelines.errors import SpecError
from pipelines.settings import settings

__all__ = ["create_ingestion_dag", "create_lifecycle_dags"]

SCHEDULES = {"hour": "0 * * * *", "day": "0 0 * * *", "month": "0 0 1 * *"}
"""Default schedule of DATASET_ingest, by unit of the partitions: the end of each hour, day or month."""


def create_lifecycle_dags(
    *,
    model: str,
    start: dt.datetime,
    end: dt.datetime | None = None,
    schedule: str = "",
    train_schedule: str = "0 0 1 * *",
    dataset: str = "",
    days_of: str = "",
    partition: Unit = "day",
    deploy: bool = False,
    **training: Any,
) -> list[DAG]:
    """Create DATASET_ingest, MODEL_train, MODEL_score, MODEL_monitor, MODEL_rollback and, on request, MODEL_deploy.

    Args:
        model: registered model. Its parameters are those of models/MODEL/params.yaml.
        start: first day of the data.
        end: last day of the data; None: without end.
        schedule: cron expression, in UTC, of DATASET_ingest; by default the end of each hour, day or month. If
            partitions are days, MODEL_monitor has this schedule, too; if they are hours, it runs at midnight.
        train_schedule: cron expression, in UTC, of the trainings that the calendar starts.
        dataset: dataset of the model; by default the one in its parameters.
        days_of: another dataset, whose published days the model uses; then this call creates no DATASET_ingest.
        partition: unit of the dataset's partitions. With months there is no MODEL_monitor, since they have no drift.
        deploy: whether there is MODEL_deploy, which deploys each new champion to a SageMaker endpoint.
        training: arguments of SpotTrainingOperator, such as instance_type, max_run_s, max_wait_s and entry_point.

    Raises:
        SpecError: the model has no parameters or no dataset, or a second call names it. A retry cannot help.
    """
    _check_call(model, partition)
    names = {"model": model, "dataset": dataset or _read_dataset(model)}
    return [
        *_create_daily_dags(**names, start=start, end=end, schedule=schedule, partition=partition, days_of=days_of),
        create_training_dag(**names, start=start, end=end, schedule=train_schedule, training=training),
        create_scoring_dag(**names, days_of=days_of or names["dataset"], start=start),
        create_rollback_dag(model=model),
        *([create_deployment_dag(model=model)] if deploy else []),
    ]


def _create_daily_dags(
    *,
    model: str,
    dataset: str,
    start: dt.datetime,
    end: dt.datetime | None,
    schedule: str,
    partition: Unit,
    days_of: str,
) -> Iterator[DAG]:
    """Create DATASET_ingest, unless `days_of` names a dataset, and MODEL_monitor, unless partitions are months."""
    schedule = schedule or SCHEDULES[partition]
    if not days_of:
        yield create_ingestion_dag(dataset=dataset, start=start, end=end, schedule=schedule, partition=partition)
    if partition != "month":
        daily_schedule = schedule if partition == "day" else SCHEDULES["day"]
        yield create_monitoring_dag(model=model, dataset=dataset, start=start, end=end, schedule=daily_schedule)


def _check_call(model: str, partition: str) -> None:
    """Refuse an unknown unit, and a second call for a model in a file: Airflow keeps only one DAG of each id."""
    require_unit(partition)
    if f"{model}_train" in {dag.dag_id for dag, _ in DagContext.autoregistered_dags}:
        message = f"this file creates the DAGs of the model {model} more than once."
        raise SpecError(message, "Give the other model another name, or remove the call.")


def _read_dataset(model: str) -> str:
    dataset = params.load_section(settings().project, "snapshot", model).get("dataset", "")
    if not dataset:
        message = f"the parameters of model {model} name no dataset."
        raise SpecError(message, "Set `dataset` in section `snapshot` of its params.yaml, or give `dataset`.")
    return str(dataset)
