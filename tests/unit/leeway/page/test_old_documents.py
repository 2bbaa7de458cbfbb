"""Test documents that another version of Leeway wrote: an answer that says so, and never an error of the server."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from pipelines.status.documents.json_object import SCHEMA_VERSION
from tests.tools.page_documents import find_form, write_document

ROOT = Path(__file__).parents[4]
ADDRESSES = {
    "models.json": "/documents/models",
    "models/flights.json": "/documents/models/flights",
    "data/flights.json": "/documents/data/flights",
    "costs.json": "/documents/costs",
    "jobs.json": "/documents/jobs",
}
FIRST_VERSION = Path(__file__).with_name("fields_of_version_1.json")
"""The required fields of each document of version 1."""


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return documents that use every message. Each list is cut to its first item."""
    folder = tmp_path_factory.mktemp("fixtures")
    command = [sys.executable, str(ROOT / "ui/fixtures/write_fixtures.py"), str(folder)]
    subprocess.run(command, check=True, env={"PYTHONPATH": str(ROOT)})
    return {name: _shorten(json.loads((folder / name).read_text())) for name in ADDRESSES}


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shorten(item) for key, item in value.items()}
    return [_shorten(value[0])] if isinstance(value, list) and value else value


@pytest.fixture
def write(status: Path, examples: dict[str, Any]) -> Any:
    """Write the examples; return the function that writes a changed one."""

    def write_content(name: str, content: Any) -> None:
        (status / name).write_text(json.dumps(content))

    for name, content in examples.items():
        write_content(name, content)
    return write_content


def list_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the place of each field of a document, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(key, str):
            yield (*place, key)
        yield from list_places(item, (*place, key))


def change(content: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a document whose field at the place has another value, or is removed if `value` is ..."""
    changed = copy.deepcopy(content)
    parent = changed
    for key in place[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return changed


@pytest.mark.parametrize("value", [..., None, pytest.param("?", marks=pytest.mark.soak), [{}]], ids=str)
@pytest.mark.parametrize("name", ADDRESSES)
def test_no_field_that_is_missing_or_wrong_is_an_error_of_the_server(
    viewer: TestClient, write: Any, examples: dict[str, Any], name: str, value: Any
) -> None:
    places = list(list_places(examples[name]))
    details = {}
    for place in places:
        write(name, change(examples[name], place, value))
        response = viewer.get(ADDRESSES[name])
        assert response.status_code in (200, 404), (place, response.text)
        if response.status_code == 404:
            details[place] = response.json()["detail"]
    assert len(details) > 2, "fields that cannot be empty must be found"
    assert all(name in text and ("version" in text or "is damaged" in text) for text in details.values())
    write(name, examples[name])
    assert viewer.get(ADDRESSES[name]).status_code == 200, "the control"


def test_a_field_that_came_later_has_its_default_and_one_that_did_not_is_named(
    viewer: TestClient, write: Any, examples: dict[str, Any]
) -> None:
    write("costs.json", change(change(examples["costs.json"], ("payers",), ...), ("anomalies",), ...))
    costs = viewer.get("/documents/costs").json()
    assert (costs["payers"], costs["anomalies"]) == ([], []) and costs["jobs"]
    write("models.json", change(examples["models.json"], ("models", 0, "month_usd"), ...))
    detail = viewer.get("/documents/models").json()["detail"]
    assert "models.json was written by another version of Leeway: models.0.month_usd: Field required" in detail
    assert "Install the same Leeway" in detail


def test_a_field_that_this_version_does_not_know_is_not_sent(
    viewer: TestClient, write: Any, examples: dict[str, Any]
) -> None:
    write("models.json", {**examples["models.json"], "secret_of_a_later_version": "x"})
    assert "secret" not in viewer.get("/documents/models").text


def list_required_fields() -> dict[str, list[str]]:
    """Return the fields without a default of each message of the documents."""
    schemas = [find_form(name).model_json_schema() for name in ADDRESSES]
    messages = {schema["title"]: schema for schema in schemas}
    for schema in schemas:
        messages |= schema.get("$defs", {})
    return {title: sorted(message.get("required", [])) for title, message in sorted(messages.items())}


def test_a_new_field_has_a_default_or_the_version_changes() -> None:
    """Otherwise the page refuses the documents of the Leeway before it, of the same version."""
    assert SCHEMA_VERSION == 1, "replace the file with the fields of the new version"
    assert list_required_fields() == json.loads(FIRST_VERSION.read_text())


def test_a_number_that_json_does_not_have_is_refused_by_the_writer(status: Path) -> None:
    """It would be null in the file, and no page could read that as a number."""
    with pytest.raises(ValidationError, match="finite number"):
        write_document(status, "models.json", models=[{"model": "boats", "month_usd": float("nan")}])
    write_document(status, "models.json", models=[{"model": "boats", "month_usd": 1.5}])
