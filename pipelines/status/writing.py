"""Write the documents of Leeway's page to LEEWAY_HOME/status, except the one of the running jobs, jobs.json."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from pipelines.dataset import Dataset
from pipelines.errors import DataError, LeewayError
from pipelines.lake.cached import CachedLake
from pipelines.settings import settings
from pipelines.status.cost_document import build_cost_document
from pipelines.status.data_documents import build_dataset_details
from pipelines.status.documents.json_object import Document
from pipelines.status.documents.models import ModelList, ModelSummary
from pipelines.status.inputs import StatusInputs
from pipelines.status.model_documents import build_details, shorten_performance
from pipelines.status.texts import shorten
from pipelines.system.error_translation import translate_error
from pipelines.system.files import replace_file
from pipelines.system.log import log

T = TypeVar("T")
D = TypeVar("D", bound=Document)
FOLDER, MODELS, DATA = "status", "models", "data"
"""Folder in LEEWAY_HOME, and its folders of the models' and of the datasets' documents."""
LEFTOVER_S = 3_600
"""Age at which a temporary file of a killed writer is removed, seconds."""


def write_documents(lake: CachedLake) -> dict[str, LeewayError]:
    """Write the documents of all models, of their datasets and of the costs; remove those of other models and datasets.

    The files are readable for others, because Airflow's API server may have another user. Each is replaced as a whole,
    so a reader never gets an incomplete one, even if two processes write. If a document cannot be built, its old file
    stays, and the others are written.

    Args:
        lake: lake to read. If it was used before, call its `refresh` first.

    Returns:
        Each document that could not be written, such as models/flights.json, and the error.

    Raises:
        ConflictError, ServiceError: the lake does not answer. A retry can help.
    """
    started_at = time.monotonic()
    inputs, writer = StatusInputs(lake), _Writer(settings().home / FOLDER)
    models_by_dataset: dict[str, list[str]] = {}
    datasets: dict[str, Dataset] = {}
    summaries: list[ModelSummary] = []
    for model in inputs.models:
        if dataset := writer.attempt(_build_path(MODELS, model), partial(_load_dataset, inputs, model)):
            datasets[dataset.name] = dataset
            models_by_dataset.setdefault(dataset.name, []).append(model)
        if details := writer.write(_build_path(MODELS, model), partial(build_details, inputs, model)):
            summaries.append(shorten_performance(details.summary))
    for name, models in models_by_dataset.items():
        writer.write(_build_path(DATA, name), partial(build_dataset_details, inputs, datasets[name], models))
    writer.write("costs.json", partial(build_cost_document, inputs))
    writer.write("models.json", partial(_build_list, inputs, summaries, writer.problems))
    writer.remove_others(MODELS, inputs.models)
    if len(inputs.models) == sum(map(len, models_by_dataset.values())):  # else the dataset of a model is not known
        writer.remove_others(DATA, models_by_dataset)
    writer.remove_leftovers()
    elapsed_s = time.monotonic() - started_at
    log.info("status: %d models, %d datasets, written in %.1f s", len(summaries), len(datasets), elapsed_s)
    return writer.problems


class _Writer:
    """Writes documents, and collects the errors of those that cannot be written.

    Args:
        folder: folder of the documents.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.problems: dict[str, LeewayError] = {}
        """Maps each document that could not be written to the error."""

    def attempt(self, name: str, build: Callable[[], T]) -> T | None:
        """Return what `build` returns; if it raises an error, add the error to `problems` and return None."""
        try:
            return build()
        except Exception as error:  # one model that cannot be read must not hide the others
            self.problems[name] = translate_error(error)
            return None

    def write(self, name: str, build: Callable[[], D]) -> D | None:
        """Build a document and write it; return it, or None if it could not be built.

        Args:
            name: path of the file in the folder.
            build: function that builds the document.
        """
        document = self.attempt(name, build) if name not in self.problems else None
        if document is not None:
            with replace_file(self._folder / name) as temporary:
                temporary.write_text(document.model_dump_json(), encoding="utf-8")
        return document

    def remove_others(self, folder: str, names: Iterable[str]) -> None:
        """Remove the documents in a folder except those of these models or datasets."""
        file_names = {f"{name}.json" for name in names}
        for path in (self._folder / folder).glob("*.json"):
            if path.name not in file_names:
                path.unlink(missing_ok=True)

    def remove_leftovers(self) -> None:
        """Remove the temporary files that killed writers left."""
        for path in self._folder.rglob(".*.json.*"):
            try:
                if path.stat().st_mtime < time.time() - LEFTOVER_S:
                    path.unlink()
            except FileNotFoundError:  # another writer has moved it
                continue


def _load_dataset(inputs: StatusInputs, model: str) -> Dataset:
    if Path(model).name != model:
        raise DataError(f"the model {model!r} cannot have a document: its name is not a file name.")
    return inputs.load_dataset(model)


def _build_path(folder: str, name: str) -> str:
    return f"{folder}/{name}.json"


def _build_list(inputs: StatusInputs, summaries: list[ModelSummary], problems: Mapping[str, LeewayError]) -> ModelList:
    unreadable_models = {
        model: shorten(problems[name].message)
        for model in inputs.models
        if (name := _build_path(MODELS, model)) in problems
    }
    unreadable_documents = {
        name: shorten(error.message) for name, error in problems.items() if not name.startswith(f"{MODELS}/")
    }
    return ModelList(
        written_at=inputs.now,
        models=sorted(summaries, key=lambda summary: summary.model),
        unreadable_models=unreadable_models,
        unreadable_documents=unreadable_documents,
        docs_url=settings().docs_index,
        mlflow_url=settings().mlflow_address,
    )
