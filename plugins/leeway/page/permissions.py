"""Say what a visitor may read and do, by Airflow's permissions. Airflow 3.3 has no API for this.

Without `from __future__ import annotations`: FastAPI has to resolve the types of the routes' parameters.
"""

from collections.abc import Collection
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Query


def select_readable_models(user: Any, models: Collection[str]) -> set[str]:
    """Select the models about which a user may read: those whose training runs the user may read in Airflow.

    The teams of the DAGs are read in one query. As in Airflow, a DAG without a team is not reserved for any team. A
    DAG that Airflow does not have counts as one without a team.

    Args:
        user: the visitor, as Airflow's auth manager describes it.
        models: names of models.
    """
    dags = dict(zip(models, _describe_dags([f"{model}_train" for model in models]), strict=True))
    manager = get_auth_manager()
    access: dict[str, Any] = {"method": "GET", "user": user, "access_entity": DagAccessEntity.RUN}
    return {model for model, details in dags.items() if manager.is_authorized_dag(details=details, **access)}


def send_permissions(name: str, user: GetUserDep, assigned: Annotated[list[str] | None, Query()] = None) -> Any:
    """Send whether the visitor may start runs of a DAG, and whether the visitor may answer its approvals.

    Airflow checks the same permissions when the visitor starts a run or answers an approval.

    Args:
        name: ID of the DAG.
        user: the visitor.
        assigned: IDs of the persons that may answer an approval; None: all who have the permission.
    """
    manager = get_auth_manager()
    (details,) = _describe_dags([name])
    may_start = manager.is_authorized_dag(method="POST", user=user, access_entity=DagAccessEntity.RUN, details=details)
    may_answer = manager.is_authorized_dag(
        method="PUT", user=user, access_entity=DagAccessEntity.HITL_DETAIL, details=details
    )
    if assigned:
        may_answer = may_answer and manager.is_authorized_hitl_task(assigned_users=set(assigned), user=user)
    return {"may_start": may_start, "may_answer": may_answer}


def _describe_dags(dag_ids: list[str]) -> list[DagDetails]:
    teams = DagModel.get_dag_id_to_team_name_mapping(dag_ids)
    return [DagDetails(id=dag_id, team_name=teams.get(dag_id)) for dag_id in dag_ids]
