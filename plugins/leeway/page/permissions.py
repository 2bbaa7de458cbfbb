"""Say what a visitor may do with a DAG, by Airflow's permissions. Airflow 3.3 has no API that says it.

Without `from __future__ import annotations`: FastAPI has to resolve the types of the routes' parameters.
"""

from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Query


def send_permissions(name: str, user: GetUserDep, assigned: Annotated[list[str] | None, Query()] = None) -> Any:
    """Send whether the visitor may start runs of a DAG, and whether the visitor may answer its approvals.

    These are the permissions that Airflow checks when it gets the request itself.

    Args:
        name: ID of the DAG.
        user: the visitor.
        assigned: IDs of the persons that may answer an approval; None: all who have the permission.
    """
    manager = get_auth_manager()
    team_name = DagModel.get_team_name(name) if conf.getboolean("core", "multi_team") else None
    details = DagDetails(id=name, team_name=team_name)
    may_start = manager.is_authorized_dag(method="POST", user=user, access_entity=DagAccessEntity.RUN, details=details)
    may_answer = manager.is_authorized_dag(
        method="PUT", user=user, access_entity=DagAccessEntity.HITL_DETAIL, details=details
    )
    if assigned:
        may_answer = may_answer and manager.is_authorized_hitl_task(assigned_users=set(assigned), user=user)
    return {"may_start": may_start, "may_answer": may_answer}
