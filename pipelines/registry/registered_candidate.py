"""Read a registered version that the gate judges, and the champion to compare it with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlflow.entities.model_registry import ModelVersion

from pipelines.errors import DataError
from pipelines.registry.artifacts import download_unchecked_package, find_model_folder
from pipelines.registry.lifecycle import find_champion_as_of
from pipelines.registry.package.digest import check_package
from pipelines.registry.versions import Registry, read_as_of
from pipelines.system.files import sha256


@dataclass(frozen=True)
class RegisteredCandidate:
    """A version to judge, and its champion. Each is read once, so that all checks of the gate use the same state."""

    registry: Registry
    """The registry of both versions."""
    version: ModelVersion
    """The version to judge."""
    champion: ModelVersion | None
    """The champion to compare the version with; None if there is none, or if the version is champion itself."""
    is_champion: bool
    """Whether the version is champion now. False in a backfill, which does not read today's champion."""
    package: Path
    """Folder of the version's packaged model, whose files were checked."""
    package_digest: str
    """SHA-256 of all files of the package, the code included."""
    model_digest: str
    """SHA-256 of those files of the package that the training wrote."""

    @cached_property
    def days_after_champion(self) -> int | None:
        """Days from the champion's as_of to the version's; negative if the champion is newer, None without a champion.

        Raises:
            DataError: one of the two versions has no tag `leeway.as_of`. A retry cannot help.
        """
        return (read_as_of(self.version) - read_as_of(self.champion)).days if self.champion else None


@contextmanager
def open_registered_candidate(model: str, number: str, *, backfill: bool) -> Iterator[RegisteredCandidate]:
    """Read a version, its checked package and its champion; remove the package when the block ends.

    Args:
        model: registered model.
        number: number of the version to judge.
        backfill: whether to compare with the champion as of the version's own as_of, not with today's champion.

    Raises:
        InvalidError: there is no registry. A retry cannot help.
        DataError: there is no such version, its files are missing, or they are not those that were judged or
            evaluated. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    registry = Registry.open()
    version = registry.get_version(model, number)
    is_champion = False
    if backfill:
        champion = find_champion_as_of(registry, model, read_as_of(version))
    else:
        champion = registry.find_champion(model)
        is_champion = champion is not None and str(champion.version) == number
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        package = download_unchecked_package(version, Path(folder))
        # The digests are computed before anything is loaded, because loading adds files to the folder. In its first
        # verdict, a version without a recorded digest is accepted.
        digests = check_package(version, package, is_first_verdict=True), _compute_evaluated_digest(version, package)
        yield RegisteredCandidate(registry, version, None if is_champion else champion, is_champion, package, *digests)


def _compute_evaluated_digest(version: ModelVersion, package: Path) -> str:
    """Compute the SHA-256 of the files that the training wrote, and check that these files were evaluated.

    A version without the tag `leeway.model_digest` is not checked.

    Raises:
        DataError: other files were evaluated. A retry cannot help.
    """
    digest = sha256(find_model_folder(package))
    if digest != version.tags.get("leeway.model_digest", digest):
        raise DataError(
            f"the files of {version.name} version {version.version} are not those that were evaluated: "
            f"digest {digest[:12]}.",
            "Evaluate and register the model again: `evaluate`.",
        )
    return digest
