"""Read the documents about models, data and costs that `python -m pipelines status` writes to LEEWAY_HOME/status.

A visitor gets only what concerns the models that the visitor may read about.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from leeway.page.documents_copy import shared_copy
from leeway.page.errors import MissingDocumentError
from pipelines.settings import settings

NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
"""Allowed names of models and datasets. No other text becomes a part of a path."""
MAX_BYTES = 16 << 20
"""Largest size of a document, bytes. A larger file is refused."""
SCHEMA_VERSION = 1
"""Version of the documents whose fields this module knows (`pipelines.status.documents.message`)."""
WATCHED_FILE = "watched"
"""File whose modification time is the time at which the lake was last checked for changes."""
REQUESTED_FILE = "requested"
"""File whose modification time is the time at which the page last requested a document. If that was long ago, changes
of the lake are not written."""
PUBLIC_COST_FIELDS = ("schema_version", "written_at", "month", "price_dates")
"""Fields of the document of the costs that say nothing about a model."""
CanRead = Callable[[str], bool]
"""Returns whether the visitor may read about a model."""


def read_models(can_read: CanRead) -> dict[str, Any]:
    """Read the list of models, without those that the visitor may not read about.

    An error about a document may name a dataset or a cost of any model. So only a visitor who may read about every
    model gets these errors.
    """
    document = _read("models.json")
    models = [model for model in document["models"] if can_read(model["model"])]
    unreadable = {name: reason for name, reason in document["unreadable_models"].items() if can_read(name)}
    sees_all = (len(models), len(unreadable)) == (len(document["models"]), len(document["unreadable_models"]))
    errors = document.get("unreadable_documents", {}) if sees_all else {}
    return {**document, "models": models, "unreadable_models": unreadable, "unreadable_documents": errors}


def read_model(name: str) -> dict[str, Any]:
    """Read the details of a model.

    Raises:
        MissingDocumentError: there is no such model.
    """
    return _read_named("models", name, "model")


def read_dataset(name: str, can_read: CanRead) -> dict[str, Any]:
    """Read the state of a dataset.

    Raises:
        MissingDocumentError: there is no such dataset, or the visitor may read about none of its models.
    """
    document = _read_named("data", name, "dataset")
    models = [model for model in document["models"] if can_read(model)]
    if document["models"] and not models:
        raise MissingDocumentError(f"there is no dataset {name}.")
    return {**document, "models": models}


def read_costs(can_read: CanRead) -> dict[str, Any]:
    """Read the costs, without those of models that the visitor may not read about.

    Budgets and anomalies are sums over a project, the advice is about all models, and a payer without a model may be
    the team of any model. So only a visitor who may read about every model with costs gets them.
    """
    # The documents of an earlier version of Leeway have no payers.
    document = {"payers": [], **_read("costs.json")}
    parts = ("jobs", "months", "endpoints", "payers")
    names = {row["model"] for part in parts for row in document[part] if row["model"]}
    hidden_models = {name for name in names if not can_read(name)}
    if not hidden_models:
        return document
    visible_rows = {part: [row for row in document[part] if row["model"] not in hidden_models] for part in parts}
    visible_rows["payers"] = [row for row in visible_rows["payers"] if row["model"]]
    # A field that is added later is hidden until it is named here.
    public = {name: document[name] for name in PUBLIC_COST_FIELDS if name in document}
    return {**public, **visible_rows, "budgets": [], "anomalies": [], "advice": []}


def read_jobs(can_read: CanRead) -> dict[str, Any]:
    """Read the running jobs, without those of models that the visitor may not read about."""
    document = _read("jobs.json")
    return {**document, "jobs": [job for job in document["jobs"] if not job["model"] or can_read(job["model"])]}


def record_request() -> None:
    """Record that the page requests a document now, so that changes of the lake are written; fetch a copy in S3."""
    shared_copy.refresh()
    with suppress(OSError):  # a folder that cannot be written has old documents, and the page says so
        folder = _get_folder()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REQUESTED_FILE).touch()


def find_watch_time() -> dt.datetime | None:
    """Return when the lake was last checked for changes, UTC; None if it never was."""
    try:
        seconds = (_get_folder() / WATCHED_FILE).stat().st_mtime
    except OSError:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def _get_folder() -> Path:
    return settings().home / "status"


def _read_named(folder: str, name: str, noun: str) -> dict[str, Any]:
    if not NAME_PATTERN.fullmatch(name):
        raise MissingDocumentError(f"there is no {noun} of this name.")
    _read("models.json")  # if nothing was ever written, the error says so, instead of "there is no model"
    try:
        return _read(f"{folder}/{name}.json")
    except MissingDocumentError:
        raise MissingDocumentError(f"there is no {noun} {name}.") from None


def _read(path: str) -> dict[str, Any]:
    """Read a document. It is parsed again only after it was replaced.

    Raises:
        MissingDocumentError: there is no such file, it is damaged, or it is of another version.
    """
    file = _get_folder() / path
    try:
        status = file.stat()
        document = _parse(file, status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError:
        raise MissingDocumentError(
            "the state of the models was never written here. Run `python -m pipelines status --watch` where the lake "
            "is, with the same LEEWAY_HOME; `make up` and docker-compose.yaml do. On MWAA, unpause page_documents."
        ) from None
    except (ValueError, RecursionError):
        raise MissingDocumentError(
            f"{path} is damaged. Run `python -m pipelines status --write` to replace it."
        ) from None
    if (version := document["schema_version"]) != SCHEMA_VERSION:
        # Without its fields, the models that the visitor may not read about cannot be removed.
        raise MissingDocumentError(
            f"{path} has version {str(version)[:20]}, and this page reads version {SCHEMA_VERSION}. Install the same "
            "Leeway in Airflow and where `python -m pipelines status` runs, then write the documents again."
        )
    return document


@lru_cache(maxsize=256)
def _parse(file: Path, inode: int, modified_ns: int, size: int) -> dict[str, Any]:
    """Parse a file. `inode`, `modified_ns` and `size` are part of the key in the cache: a new file has other values."""
    if size > MAX_BYTES:
        raise ValueError(f"{file} has {size} bytes")
    document = json.loads(file.read_bytes())
    if not isinstance(document, dict) or "schema_version" not in document:
        raise ValueError(f"{file} has no schema_version")
    return document
