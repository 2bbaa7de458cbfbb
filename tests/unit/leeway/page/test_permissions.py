"""Test that a team does not read about the models of another team, with Airflow's own teams and permissions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.team import Team
from airflow.settings import Session
from fastapi.testclient import TestClient

from tests.tools.page_documents import write_document

VISITORS = {
    "harbor": ["boats", "trains"],
    "street": ["cars", "trains"],
    "harbor and street": ["boats", "cars", "trains"],
    "": ["trains"],
}
"""Maps the teams of a viewer to the models that the viewer may read about. `trains` has no team."""


@pytest.fixture(autouse=True)
def teams() -> Iterator[None]:
    """Give the DAGs of boats and of cars to two teams; trains have a DAG without a team."""
    session = Session()
    for model, team in (("boats", "harbor"), ("cars", "street"), ("trains", "")):
        bundle = DagBundleModel(name=f"dags of {model}")
        bundle.teams = [Team(name=team)] if team else []
        session.add(bundle)
        session.flush()  # the DAG refers to it
        session.add(DagModel(dag_id=f"{model}_train", bundle_name=bundle.name, fileloc="dags.py"))
    session.commit()
    yield
    for table in ("dag", "dag_bundle_team", "team", "dag_bundle"):
        session.execute(DagModel.metadata.tables[table].delete())
    session.commit()
    session.expunge_all()  # the next test has rows of the same names


@pytest.fixture
def visit(client: TestClient, auth_manager: Any, status: Path) -> Any:
    """Return the function that returns a client with the cookie of a person."""
    trains = {"model": "trains"}
    write_document(status, "models.json", models=[{"model": "boats"}, {"model": "cars"}, trains])
    write_document(status, "models/trains.json", summary=trains)
    write_document(status, "data/street.json", dataset="street", models=["cars"])

    def log_in(role: str, *teams: str) -> TestClient:
        user = SimpleAuthManagerUser(username="vera", role=role, teams=list(teams))
        client.cookies.set("_token", auth_manager.generate_jwt(user))
        return client

    return log_in


@pytest.mark.parametrize("teams_of_visitor", VISITORS)
def test_a_team_reads_about_its_own_models_only(visit: Any, teams_of_visitor: str) -> None:
    visitor = visit("viewer", *teams_of_visitor.split(" and "))
    readable = VISITORS[teams_of_visitor]
    models = visitor.get("/documents/models").json()["models"]
    assert [model["model"] for model in models] == readable
    for model in ("boats", "cars", "trains"):
        assert visitor.get(f"/documents/models/{model}").status_code == (200 if model in readable else 403)
    assert visitor.get("/documents/data/street").status_code == (200 if "cars" in readable else 404)
    costs = visitor.get("/documents/costs").json()
    assert {row["model"] for row in costs["jobs"]} == {"boats", "cars", ""} & {*readable, ""}
    assert bool(costs["budgets"]) == ({"boats", "cars"} <= {*readable})
    jobs = visitor.get("/documents/jobs").json()["jobs"]
    assert {job["model"] for job in jobs} == {"boats", "cars", ""} & {*readable, ""}


def test_an_admin_reads_about_the_models_of_all_teams(visit: Any) -> None:
    models = visit("admin").get("/documents/models").json()["models"]
    assert [model["model"] for model in models] == ["boats", "cars", "trains"]


@pytest.mark.parametrize(
    ("role", "team", "assigned", "may_start", "may_answer"),
    [
        ("viewer", "harbor", [], False, False),
        ("viewer", "harbor", ["vera"], False, False),
        ("user", "harbor", [], True, True),
        ("user", "harbor", ["vera"], True, True),
        ("user", "harbor", ["grace", "vera"], True, True),
        ("user", "harbor", ["grace"], True, False),
        ("user", "harbor", ["<img src=x>"], True, False),
        ("user", "street", [], False, False),
        ("user", "street", ["vera"], False, False),
        ("admin", "", [], True, True),
    ],
)
def test_visitor_reads_what_the_visitor_may_do(
    visit: Any, role: str, team: str, assigned: list[str], may_start: bool, may_answer: bool
) -> None:
    """The DAG is that of the team harbor, and the visitor is vera. To be assigned gives nobody a permission."""
    answer = visit(role, *[team] * bool(team)).get("/permissions/boats_train", params={"assigned": assigned})
    assert answer.json() == {"may_start": may_start, "may_answer": may_answer}


def test_a_dag_without_a_team_or_an_unknown_one_belongs_to_everybody(visit: Any) -> None:
    visitor = visit("user", "street")
    for dag in ("trains_train", "planes_train"):
        assert visitor.get(f"/permissions/{dag}").json() == {"may_start": True, "may_answer": True}


def test_permissions_need_a_valid_token(client: TestClient, auth_manager: Any) -> None:
    assert client.get("/permissions/boats_train").status_code == 401
    client.cookies.set("_token", "forged")
    assert client.get("/permissions/boats_train").status_code in (401, 403)
