"""Read the documents about models, data and costs that `python -m pipelines status` writes to LEEWAY_HOME/status.

A visitor gets only what concerns the models that the visitor may read about.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from leeway.page.documents_copy import shared_copy
from leeway.page.errors import MissingDocumentError
from pipelines.settings import settings
from pipelines.status.documents.costs import CostDocument
from pipelines.status.documents.data import DatasetDetails
from pipelines.status.documents.jobs import RunningJobs
from pipelines.status.documents.json_object import SCHEMA_VERSION, Document
from pipelines.status.documents.model import ModelDetails
from pipelines.status.documents.models import ModelList

NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
"""Allowed names of models and datasets. No other text becomes a part of a path."""
MAX_BYTES = 16 << 20
"""Largest size of a document, bytes. A larger file is refused."""
LAST_CHECK_FILE = "watched"
"""File whose modification time is the time at which the lake was last checked for changes."""
LAST_REQUEST_FILE = "requested"
"""File whose modification time is the time at which the page last requested a document. If that was long ago, changes
of the lake are not written to the documents."""
PUBLIC_COST_FIELDS = ("schema_version", "written_at", "month", "price_dates")
"""Fields of the document of the costs that say nothing about a model."""
SelectReadable = Callable[[Iterable[str]], set[str]]
"""Selects the models about which the visitor may read."""


def read_models(select_readable: SelectReadable) -> dict[str, Any]:
    """Read the list of models, without those that the visitor may not read about.

    An error about a document may name a dataset or a cost of any model. So only a visitor who may read about every
    model gets these errors.
    """
    document = _read("models.json", ModelList)
    names = {*(model["model"] for model in document["models"]), *document["unreadable_models"]}
    readable_models = select_readable(names)
    models = [model for model in document["models"] if model["model"] in readable_models]
    unreadable_models = {
        name: reason for name, reason in document["unreadable_models"].items() if name in readable_models
    }
    errors = document["unreadable_documents"] if readable_models == names else {}
    return {**document, "models": models, "unreadable_models": unreadable_models, "unreadable_documents": errors}


def read_model(name: str) -> dict[str, Any]:
    """Read the details of a model.

    Raises:
        MissingDocumentError: there is no such model.
    """
    return _read_named("models", name, "model", ModelDetails)


def read_dataset(name: str, select_readable: SelectReadable) -> dict[str, Any]:
    """Read the state of a dataset.

    Raises:
        MissingDocumentError: there is no such dataset, or the visitor may read about none of its models.
    """
    document = _read_named("data", name, "dataset", DatasetDetails)
    models = sorted(select_readable(document["models"]))
    if document["models"] and not models:
        raise MissingDocumentError(f"there is no dataset {name}.")
    return {**document, "models": models}


def read_costs(select_readable: SelectReadable) -> dict[str, Any]:
    """Read the costs, without the costs of models that the visitor may not read about.

    Budgets and anomalies are sums over a project, commitments and advice are about all models, and a payer without a
    model may be the team of any model. So only a visitor who may read about every model with costs gets them.
    """
    document = _read("costs.json", CostDocument)
    row_fields = ("jobs", "months", "endpoints", "payers")
    names = {row["model"] for field in row_fields for row in document[field] if row["model"]}
    hidden_models = names - select_readable(names)
    if not hidden_models:
        return document
    visible_rows = {
        field: [row for row in document[field] if row["model"] not in hidden_models] for field in row_fields
    }
    visible_rows["payers"] = [row for row in visible_rows["payers"] if row["model"]]
    # A field that is added later is hidden until it is named here.
    public_fields = {name: document[name] for name in PUBLIC_COST_FIELDS}
    hidden_fields: dict[str, Any] = {"budgets": [], "anomalies": [], "advice": [], "unused_commitment_usd": None}
    return {**public_fields, **visible_rows, **hidden_fields}


def read_jobs(select_readable: SelectReadable) -> dict[str, Any]:
    """Read the running jobs, without those of models that the visitor may not read about."""
    document = _read("jobs.json", RunningJobs)
    readable_models = {"", *select_readable({job["model"] for job in document["jobs"] if job["model"]})}
    return {**document, "jobs": [job for job in document["jobs"] if job["model"] in readable_models]}


def record_request() -> None:
    """Record that the page requests a document now, so that changes of the lake are written; fetch a copy from S3."""
    shared_copy.refresh()
    with suppress(OSError):  # a folder that cannot be written has old documents, and the page says so
        folder = _get_folder()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LAST_REQUEST_FILE).touch()


def find_last_check_time() -> dt.datetime | None:
    """Return when the lake was last checked for changes, UTC; None if it never was."""
    try:
        seconds = (_get_folder() / LAST_CHECK_FILE).stat().st_mtime
    except OSError:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def _get_folder() -> Path:
    return settings().home / "status"


def check_name(name: str, noun: str) -> None:
    """Check that a name may become a part of a path.

    Raises:
        MissingDocumentError: the name is not allowed, so nothing has it.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise MissingDocumentError(f"there is no {noun} of this name.")


def _read_named(folder: str, name: str, noun: str, document_class: type[Document]) -> dict[str, Any]:
    check_name(name, noun)
    _read("models.json", ModelList)  # if nothing was ever written, the error says so, instead of "there is no model"
    try:
        (_get_folder() / folder / f"{name}.json").stat()
    except OSError:
        raise MissingDocumentError(f"there is no {noun} {name}.") from None
    return _read(f"{folder}/{name}.json", document_class)


def _read(path: str, document_class: type[Document]) -> dict[str, Any]:
    """Read a document. It is parsed again only after it was replaced.

    Raises:
        MissingDocumentError: there is no such file, it is damaged, or another version of Leeway wrote it.
    """
    file = _get_folder() / path
    try:
        status = file.stat()
        return _parse(file, document_class, status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError:
        raise MissingDocumentError(
            "the state of the models was never written here. Run `python -m pipelines status --watch` where the lake "
            "is, with the same LEEWAY_HOME; `make up` and docker-compose.yaml do. On MWAA, unpause page_documents."
        ) from None
    except ValidationError as error:
        raise _make_version_error(path, _describe_difference(error)) from None
    except (ValueError, RecursionError):
        raise MissingDocumentError(
            f"{path} is damaged. Run `python -m pipelines status --write` to replace it."
        ) from None


@lru_cache(maxsize=256)
def _parse(file: Path, document_class: type[Document], inode: int, modified_ns: int, size: int) -> dict[str, Any]:
    """Parse a file. `inode`, `modified_ns` and `size` are part of the key in the cache: a new file has other values.

    A field that the file lacks gets its default. A field that this version of Leeway does not know is left out: whether
    a visitor may read it is not known.
    """
    if size > MAX_BYTES:
        raise ValueError(f"{file} has {size} bytes")
    content = json.loads(file.read_bytes())
    if not isinstance(content, dict) or "schema_version" not in content:
        raise ValueError(f"{file} has no schema_version")
    if (version := content["schema_version"]) != SCHEMA_VERSION:
        # Without this version's fields, the models that the visitor may not read about cannot be removed.
        difference = f"has version {str(version)[:20]}, and this page reads version {SCHEMA_VERSION}"
        raise _make_version_error(file.relative_to(_get_folder()).as_posix(), difference)
    return document_class.model_validate(content, extra="ignore").model_dump(mode="json")


def _describe_difference(error: ValidationError) -> str:
    """Say in which field a document differs from the documents of this version."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))[:200]
    return f"was written by another version of Leeway: {place}: {first['msg'][:200]}"


def _make_version_error(path: str, difference: str) -> MissingDocumentError:
    return MissingDocumentError(
        f"{path} {difference}. Install the same Leeway in Airflow and where `python -m pipelines status` runs, then "
        "write the documents again."
    )
