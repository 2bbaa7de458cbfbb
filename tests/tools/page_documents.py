"""Build small documents of Leeway's page: each field that a test does not name gets an empty value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from pipelines.status.documents.costs import CostDocument
from pipelines.status.documents.data import DatasetDetails
from pipelines.status.documents.jobs import RunningJobs
from pipelines.status.documents.json_object import Document
from pipelines.status.documents.model import ModelDetails
from pipelines.status.documents.models import ModelList

FORMS: Mapping[str, type[Document]] = {
    "models.json": ModelList,
    "costs.json": CostDocument,
    "jobs.json": RunningJobs,
    "models": ModelDetails,
    "data": DatasetDetails,
}
"""Maps a file, or the folder of a file, to the form of its document."""
MOMENT = "2026-11-27T09:00:00Z"


def find_form(name: str) -> type[Document]:
    """Return the form of a document.

    Args:
        name: path of the file in the folder of the documents.
    """
    return FORMS[name.partition("/")[0]]


def write_document(folder: Path, name: str, **values: Any) -> None:
    """Write a document. `values` replace the empty values of its fields; a message in it is a dict of its fields."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    form = find_form(name)
    (folder / name).write_text(form.model_validate(_fill(form, values)).model_dump_json(), encoding="utf-8")


def _fill(form: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    required = {name: field.annotation for name, field in form.model_fields.items() if field.is_required()}
    filled = {name: _fill_value(form.model_fields[name].annotation, value) for name, value in values.items()}
    return {name: _make_empty(annotation) for name, annotation in required.items()} | filled


def _fill_value(annotation: Any, value: Any) -> Any:
    """Add the empty values to a message, or to each message of a list."""
    if isinstance(value, dict) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _fill(annotation, value)
    if isinstance(value, list):
        return [_fill_value(get_args(annotation)[0], item) for item in value]
    return value


def _make_empty(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin in (Union, UnionType) and NoneType in get_args(annotation):
        return None
    if origin is Literal:
        return get_args(annotation)[0]
    if origin:
        return origin()
    if issubclass(annotation, BaseModel):
        return _fill(annotation, {})
    return {dt.datetime: MOMENT, dt.date: MOMENT[:10]}.get(annotation) or annotation()
