"""Download the record of a version: the files that were stored when it was registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mlflow.entities.model_registry import ModelVersion

from pipelines.code_files import PARAMS_FILE
from pipelines.errors import DataError
from pipelines.registry.artifacts import PROVENANCE, download_package, download_run, find_model_folder
from pipelines.system.files import read_json
from pipelines.versioning.git import DIRTY

REQUIRED = (PROVENANCE, "snapshot.json", "dvc.lock", PARAMS_FILE, "evaluation/metrics.json")
"""Artifacts of the version's run, all of which are needed to rebuild the version."""


@dataclass(frozen=True)
class Record:
    """The files of a version's run, and of its model."""

    folder: Path
    """Folder of the run's artifacts."""
    model: Path
    """Folder of the model's files; they are those that the gate judged."""
    git_commit: str
    """Commit of the version's code, as a tag of the version names it; empty if there is none."""

    @classmethod
    def download(cls, version: ModelVersion, folder: Path) -> Record:
        """Download the record of a version to `folder`, and check the model's files.

        Raises:
            DataError: the run lacks what rebuilding the version needs, or the model's files are not those that were
                judged. A retry cannot help.
            ServiceError: MLflow failed. A retry can help.
        """
        package = download_package(version, folder / "model")
        commit = version.tags.get("leeway.git_commit", "")
        record = cls(download_run(version, folder / "run"), find_model_folder(package), commit)
        missing_files = [name for name in REQUIRED if not (record.folder / name).is_file()]
        if missing_files:
            raise DataError(
                f"{version.name} version {version.version} cannot be rebuilt: its run lacks "
                f"{', '.join(missing_files)}.",
                "Register versions by `evaluate` from a workspace, or from a project with a dvc.lock.",
            )
        return record

    @cached_property
    def provenance(self) -> Mapping[str, Any]:
        """Code, features and digest of the model; see `pipelines.registry.lineage.build_provenance`."""
        provenance: Mapping[str, Any] = read_json(self.folder / PROVENANCE, "`evaluate` logs it with the version")
        return provenance

    @property
    def commit(self) -> str:
        """The commit that contains all of the version's code; empty if no commit does."""
        # The tag is used, not the provenance: a person who can write to the run's artifacts must not choose which code
        # runs here.
        return "" if self.git_commit == "unknown" or self.git_commit.endswith(DIRTY) else self.git_commit
