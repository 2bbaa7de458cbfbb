"""Test that the page's schema and types are those of the documents that it shows."""

import json

import pytest
from pydantic.json_schema import models_json_schema

from pipelines.status.documents.models import ModelList
from tools import page_schema


def test_schema_file_is_that_of_the_documents():
    written = page_schema.SCHEMA.read_text(encoding="utf-8")
    assert written == page_schema.render_schema(), "run `python tools/page_schema.py && npm --prefix ui run types`"


def test_types_have_all_messages_and_fields():
    types = (page_schema.SCHEMA.parent / "src/documents/types.ts").read_text(encoding="utf-8")
    for name, message in json.loads(page_schema.render_schema())["$defs"].items():
        body = types.partition(f"export interface {name} {{")[2].partition("\n}")[0]
        assert [field for field in message["properties"] if f"  {field}" not in body] == [], name


def test_another_field_is_found(monkeypatch: pytest.MonkeyPatch):
    class NewList(ModelList):
        new_field: str

    _, schema = models_json_schema([(NewList, "serialization")])
    monkeypatch.setattr(page_schema, "models_json_schema", lambda _: ({}, schema | {"$defs": schema["$defs"]}))
    monkeypatch.setattr(page_schema, "DOCUMENTS", (NewList,))
    assert "new_field" in page_schema.render_schema()
    assert page_schema.render_schema() != page_schema.SCHEMA.read_text(encoding="utf-8")
