"""Test who gets which document from the page's application, with Airflow's own tokens and permissions."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from leeway.page import app as page_app
from leeway.page import documents, permissions

from pipelines.settings import settings
from pipelines.status import watching, writing
from pipelines.status.documents.costs import CostDocument
from stack.layout import Layout
from tests.tools.page_documents import write_document

ADDRESSES = (
    *("/documents/models", "/documents/models/boats", "/documents/data/harbor", "/documents/costs", "/documents/jobs"),
    "/leeway.js",
)


class ReaderOfBoats:
    """Permissions of a visitor who may read the runs of boats_train only."""

    def is_authorized_dag(self, *, details: Any, **_: Any) -> bool:
        """Return whether the DAG is boats_train."""
        return bool(details.id == "boats_train")


@pytest.mark.parametrize("address", [*ADDRESSES, "/icon.svg", "/documents/models/nobody"])
def test_without_a_login_nothing_is_sent(client: TestClient, address: str) -> None:
    response = client.get(address)
    assert (response.status_code, response.json()) == (401, {"detail": "Not authenticated"})
    client.cookies.set("_token", "forged")
    assert client.get(address).status_code == 403
    for path in ("/docs", "/openapi.json", "/redoc"):
        assert client.get(path).status_code == 404


def test_every_route_needs_a_login(client: TestClient) -> None:
    """A route that is added later cannot be open by accident."""
    routes: Any = page_app.create_app().routes
    for route in routes:
        assert client.get(route.path.replace("{name}", "boats")).status_code == 401, route.path


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_viewer_reads_and_cannot_write(viewer: TestClient, address: str) -> None:
    response = viewer.get(address)
    assert (response.status_code, response.headers["cache-control"]) == (200, "private, no-cache")
    assert viewer.post(address, json={}).status_code == 405


def test_a_visitor_without_the_permission_for_a_dag_sees_nothing_of_its_model(
    viewer: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = viewer.get("/documents/models").json()
    assert (len(models["models"]), len(models["unreadable_documents"])) == (2, 1), "the control"
    costs = viewer.get("/documents/costs").json()
    assert len(costs["payers"]) == 3 and costs["anomalies"] and costs["budgets"], "the control"
    assert costs["unused_commitment_usd"], "the control"
    monkeypatch.setattr(permissions, "get_auth_manager", ReaderOfBoats)
    models = viewer.get("/documents/models").json()
    assert ([model["model"] for model in models["models"]], models["unreadable_models"]) == (["boats"], {})
    assert models["unreadable_documents"] == {}
    assert viewer.get("/documents/models/boats").status_code == 200
    response = viewer.get("/documents/models/cars")
    assert (response.status_code, "cars_train" in response.json()["detail"]) == (403, True)
    assert viewer.get("/documents/models/nobody").status_code == 403, "whether it exists is not said"
    assert viewer.get("/documents/data/harbor").status_code == 200
    assert viewer.get("/documents/data/street").json() == {"detail": "there is no dataset street."}
    costs = viewer.get("/documents/costs").json()
    assert [row["model"] for row in costs["jobs"]] == [row["model"] for row in costs["months"]] == ["boats", ""]
    assert costs["budgets"] == costs["advice"] == costs["anomalies"] == []
    assert costs["unused_commitment_usd"] is None
    assert [row["model"] for row in costs["payers"]] == ["boats"]
    assert costs.keys() == CostDocument.model_fields.keys(), "each field of the document is hidden or public by choice"
    assert [job["model"] for job in viewer.get("/documents/jobs").json()["jobs"]] == ["boats", ""]


def test_an_unchanged_document_is_not_sent_again(viewer: TestClient, status: Path) -> None:
    first = viewer.get("/documents/models/boats")
    again = viewer.get("/documents/models/boats", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    write_document(status, "models/boats.json", summary={"model": "boats2"})
    changed = viewer.get("/documents/models/boats", headers={"If-None-Match": first.headers["etag"]})
    assert (changed.status_code, changed.json()["summary"]["model"]) == (200, "boats2")


def test_the_time_of_the_last_check_is_sent_even_if_the_document_is_unchanged(viewer: TestClient, status: Path) -> None:
    first = viewer.get("/documents/models")
    assert page_app.WATCHED_HEADER not in first.headers
    (status / documents.LAST_CHECK_FILE).touch()
    os.utime(status / documents.LAST_CHECK_FILE, (1_795_770_000, 1_795_770_000))
    again = viewer.get("/documents/models", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.headers[page_app.WATCHED_HEADER]) == (304, "2026-11-27T09:00:00Z")


def test_files_have_the_names_that_the_watcher_uses(status: Path) -> None:
    assert (documents.LAST_CHECK_FILE, documents.LAST_REQUEST_FILE) == (
        watching.LAST_CHECK_FILE,
        watching.LAST_REQUEST_FILE,
    )
    assert documents._get_folder() == settings().home / writing.FOLDER
    assert Layout(home=settings().home, project=status).watched_file == status / watching.LAST_CHECK_FILE


def test_a_request_is_recorded_but_not_that_of_a_stranger(viewer: TestClient, status: Path) -> None:
    file = status / documents.LAST_REQUEST_FILE
    for address in ADDRESSES:
        viewer.get(address, headers={"Cookie": "", "Authorization": "Bearer forged"})
    viewer.get("/leeway.js")
    assert not file.exists()
    viewer.get("/documents/costs")
    os.utime(file, (1, 1))
    viewer.get("/documents/models/boats", headers={"If-None-Match": "*"})
    assert file.stat().st_mtime > 1


@pytest.mark.parametrize("name", ["nobody", "a" * 201, "%2e%2e%2fmodels", "..", ".hidden", "a%00b", "<script>"])
def test_an_unknown_or_strange_name_is_not_found(viewer: TestClient, status: Path, name: str) -> None:
    (status.parent / "models.json").write_text('{"schema_version": 1}')
    for folder in ("models", "data"):
        response = viewer.get(f"/documents/{folder}/{name}")
        assert response.status_code == 404
        assert str(status) not in response.text and "<script>" not in response.text


def test_documents_that_are_missing_or_damaged_say_what_to_do(viewer: TestClient, status: Path) -> None:
    for content in ("{", "[]", "{}"):
        (status / "models.json").write_text(content)
        response = viewer.get("/documents/models")
        assert (response.status_code, "models.json is damaged" in response.json()["detail"]) == (404, True)
    (status / "models.json").unlink()
    for address in ("/documents/models", "/documents/models/boats", "/documents/data/nobody"):
        assert "status --watch" in viewer.get(address).json()["detail"]


@pytest.mark.slow
def test_the_page_loads_no_heavy_library() -> None:
    """The API server stays light, also after it has read documents."""
    code = (
        "import sys; from leeway.page import app; app.create_app(); "
        "print([name for name in sys.argv[1:] if name in sys.modules])"
    )
    names = ["pandas", "numpy", "pyiceberg", "pyarrow", "duckdb", "mlflow", "great_expectations", "fastapi"]
    result = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "['fastapi']", "fastapi is the control"
