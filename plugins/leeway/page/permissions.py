"""Decide about which models a visitor may read: those whose runs of the training the visitor may read in Airflow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel


def select_readable_models(user: Any, models: Iterable[str]) -> set[str]:
    """Select the models about which a user may read.

    The teams of the DAGs are read in one query. As in Airflow, a DAG without a team belongs to everybody; so does the
    DAG of a model that Airflow does not have.

    Args:
        user: the visitor, as Airflow's auth manager describes it.
        models: names of models.
    """
    dag_ids = {model: f"{model}_train" for model in models}
    teams = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids.values()))
    manager = get_auth_manager()

    def can_read_runs(dag_id: str) -> bool:
        details = DagDetails(id=dag_id, team_name=teams.get(dag_id))
        return manager.is_authorized_dag(method="GET", user=user, access_entity=DagAccessEntity.RUN, details=details)

    return {model for model, dag_id in dag_ids.items() if can_read_runs(dag_id)}
