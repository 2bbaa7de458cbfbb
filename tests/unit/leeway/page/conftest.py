"""Provide the page's application with Airflow's own logins and permissions, and documents of two models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.app import create_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dag import DagModel
from airflow.models.revoked_token import RevokedToken
from airflow.settings import Session
from fastapi.testclient import TestClient
from leeway.page import app as page_app

from tests.tools.page_documents import write_document

BOATS, CARS = {"model": "boats"}, {"model": "cars"}


@pytest.fixture(scope="module", autouse=True)
def auth_manager() -> Iterator[Any]:
    """Return Airflow's simple auth manager, with a key of the recommended length and the tables that it reads."""
    names = (RevokedToken.__tablename__, "dag_bundle", "team", "dag_bundle_team", DagModel.__tablename__)
    DagModel.metadata.create_all(Session().get_bind(), [DagModel.metadata.tables[name] for name in names])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "x" * 64)
        yield create_auth_manager()


@pytest.fixture
def status(home: Path) -> Path:
    """Write the documents of two models; return their folder."""
    folder = home / "status"
    rows = [{"model": name, "cost_usd": 1.5} for name in ("boats", "cars", "")]
    months = [{"model": name} for name in ("boats", "cars", "")]
    files: dict[str, dict[str, Any]] = {
        "models.json": {
            "models": [BOATS, CARS],
            "unreadable_models": {"cars": "locked"},
            "unreadable_documents": {"data/street.json": "cars are damaged"},
        },
        "models/boats.json": {"summary": BOATS},
        "models/cars.json": {"summary": CARS},
        "data/harbor.json": {"dataset": "harbor", "models": ["boats"]},
        "data/street.json": {"dataset": "street", "models": ["cars"]},
        "jobs.json": {"jobs": [{"model": name} for name in ("boats", "cars", "")]},
        "costs.json": {
            **{"jobs": rows, "months": months, "payers": rows, "budgets": [{"project": "p"}], "month": "2026-11"},
            **{"advice": ["x"], "anomalies": ["y"], "unused_commitment_usd": {"2026-01": 1.0}, "price_dates": "2026"},
        },
    }
    for name, values in files.items():
        write_document(folder, name, **values)
    return folder


@pytest.fixture
def client(home: Path) -> TestClient:
    """Return a client of the application, who is not logged in."""
    return TestClient(page_app.create_app())


@pytest.fixture
def viewer(client: TestClient, auth_manager: Any, status: Path) -> TestClient:
    """Return a client with the cookie of a viewer."""
    client.cookies.set("_token", auth_manager.generate_jwt(SimpleAuthManagerUser(username="vera", role="viewer")))
    return client
