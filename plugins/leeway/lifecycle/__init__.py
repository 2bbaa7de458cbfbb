"""Create the DAGs of a model's lifecycle by one call in a file of dags/.

Airflow finds the DAGs even if the call's result is not assigned to a variable. Some are paused at first: MODEL_score
and MODEL_monitor, because they need a champion; MODEL_deploy, because an endpoint costs money every hour;
MODEL_serving_monitor, because it needs an endpoint that captures requests; MODEL_materialize, because it needs AWS or
drydock.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from airflow.sdk import DAG
from airflow.sdk.definitions._internal.contextmanager import DagContext

from leeway.lifecycle.breaker_dag import create_breaker_dag
from leeway.lifecycle.deployment_dag import create_deployment_dag
from leeway.lifecycle.ingestion_dag import Unit, create_ingestion_dag, require_unit
from leeway.lifecycle.materialization_dag import create_materialization_dag
from leeway.lifecycle.monitoring_dag import create_monitoring_dag
from leeway.lifecycle.rollback_dag import create_rollback_dag
from leeway.lifecycle.scoring_dag import create_scoring_dag
from leeway.lifecycle.serving_monitor_dag import create_serving_monitor_dag
from leeway.lifecycle.training_dag import create_training_dag
from leeway.lifecycle.tuning_dag import create_tuning_dag
from leeway.lifecycle.withdrawal_dag import create_withdrawal_dag
from pipelines import params
from pipelines.errors import SpecError
from pipelines.settings import settings

__all__ = ["create_ingestion_dag", "create_lifecycle_dags"]

SCHEDULES = {"hour": "0 * * * *", "day": "0 0 * * *", "month": "0 0 1 * *"}
"""Default schedule of DATASET_ingest, by unit of the partitions: the end of each hour, day or month."""
MonitoredRows = Literal["scores", "requests"]
"""Rows on whose drift MODEL_monitor decides."""


def create_lifecycle_dags(
    *,
    model: str,
    start: dt.datetime,
    end: dt.datetime | None = None,
    schedule: str = "",
    train_schedule: str = "0 0 1 * *",
    dataset: str = "",
    rows_from: str = "",
    partition: Unit = "day",
    deploy: bool = False,
    materialize: bool = False,
    tune: bool = False,
    drift_of: MonitoredRows = "scores",
    **training: Any,
) -> list[DAG]:
    """Create DATASET_ingest and _withdraw; MODEL_train, _score, _monitor, _rollback, _reset_breaker; others on request.

    Args:
        model: registered model. Its parameters are those of models/MODEL/params.yaml.
        start: first day of the data.
        end: last day of the data; None: without end.
        schedule: cron expression, in UTC, of DATASET_ingest and, for days, MODEL_monitor; default: `SCHEDULES`.
        train_schedule: cron expression, in UTC, of the trainings that the calendar starts.
        dataset: dataset of the model; by default the one in its parameters.
        rows_from: another dataset, whose published days the model uses; if given, there is no new DATASET_ingest.
        partition: unit of the dataset's partitions. There is no MODEL_monitor for months: drift compares days.
        deploy: whether there are MODEL_deploy, for a SageMaker endpoint, and MODEL_serving_monitor, for its requests.
        materialize: whether there is MODEL_materialize, which writes the dataset's lookups to the online store.
        tune: whether there is MODEL_tune, with which a person searches for hyperparameters; see section `tune`.
        drift_of: rows on which MODEL_monitor decides: scores of MODEL_score, or requests that the endpoint answered.
        training: arguments of SpotTrainingOperator, such as instance_type, max_run_s, max_wait_s and entry_point.

    Raises:
        SpecError: no parameters or dataset, a wrong value, or a second call for the model. A retry cannot help.
    """
    names = _choose_names(model, dataset, partition, drift_of, deploy)
    dags = list(_create_daily_dags(names, start, end, schedule, partition, rows_from))
    dags += _create_training_dags(names, start, end, train_schedule, tune, training)
    return [*dags, *_create_scoring_dags(names, rows_from, start, deploy, materialize, drift_of)]


def _create_training_dags(
    names: Mapping[str, str],
    start: dt.datetime,
    end: dt.datetime | None,
    schedule: str,
    tune: bool,
    training: Mapping[str, Any],
) -> Iterator[DAG]:
    """Create MODEL_train; and MODEL_tune, if `tune` is true."""
    yield create_training_dag(**names, start=start, end=end, schedule=schedule, training=training)
    if tune:
        yield create_tuning_dag(**names, training=training)


def _create_scoring_dags(
    names: Mapping[str, str],
    rows_from: str,
    start: dt.datetime,
    deploy: bool,
    materialize: bool,
    drift_of: MonitoredRows,
) -> Iterator[DAG]:
    """Create the DAGs that score with a model, roll it back, reset its breaker and serve it."""
    names = {**names, "rows_from": rows_from or names["dataset"]}
    decides_on_requests = drift_of == "requests"
    yield create_scoring_dag(**names, start=start, has_profiles=not decides_on_requests)
    yield create_rollback_dag(model=names["model"])
    yield create_breaker_dag(model=names["model"])
    if deploy:
        yield create_deployment_dag(model=names["model"])
        yield create_serving_monitor_dag(**names, start=start, has_profiles=decides_on_requests)
    if materialize:
        yield create_materialization_dag(**names, start=start)


def _create_daily_dags(
    names: Mapping[str, str],
    start: dt.datetime,
    end: dt.datetime | None,
    schedule: str,
    partition: Unit,
    rows_from: str,
) -> Iterator[DAG]:
    """Create DATASET_ingest and _withdraw if `rows_from` is empty; and MODEL_monitor, unless partitions are months."""
    dataset, schedule = names["dataset"], schedule or SCHEDULES[partition]
    if not rows_from:
        yield create_ingestion_dag(dataset=dataset, start=start, end=end, schedule=schedule, partition=partition)
        yield create_withdrawal_dag(dataset=dataset)
    if partition != "month":
        daily_schedule = schedule if partition == "day" else SCHEDULES["day"]
        yield create_monitoring_dag(**names, start=start, end=end, schedule=daily_schedule)


def _choose_names(model: str, dataset: str, partition: str, drift_of: str, deploy: bool) -> dict[str, str]:
    """Return the names of the model and its dataset.

    Unknown values are refused. So is a second call for the same model in one file, because Airflow keeps only one DAG
    of each id.
    """
    require_unit(partition)
    if drift_of not in get_args(MonitoredRows):
        raise SpecError(f"unknown drift_of {drift_of!r}.", f"Use one of: {', '.join(get_args(MonitoredRows))}.")
    if drift_of == "requests" and not (deploy and partition == "day"):
        hint = "Give deploy=True and partition='day'."
        raise SpecError("drift_of='requests' needs an endpoint, and partitions by day.", hint)
    if f"{model}_train" in {dag.dag_id for dag, _ in DagContext.autoregistered_dags}:
        message = f"this file creates the DAGs of the model {model} more than once."
        raise SpecError(message, "Give the other model another name, or remove the call.")
    return {"model": model, "dataset": dataset or _read_dataset(model)}


def _read_dataset(model: str) -> str:
    dataset = params.load_section(settings().project, "snapshot", model).get("dataset", "")
    if not dataset:
        message = f"the parameters of model {model} name no dataset."
        raise SpecError(message, "Set `dataset` in section `snapshot` of its params.yaml, or give `dataset`.")
    return str(dataset)
