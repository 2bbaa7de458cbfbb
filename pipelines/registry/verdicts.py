"""A verdict's file, and whether it is the one that was given on a version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DataError, PromotionError
from pipelines.system.files import read_json, sha256

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


def given(path: Path, version: ModelVersion) -> dict[str, Any]:
    """The verdict on this very version, as it was given.

    Raises:
        DataError: the file is none.
        PromotionError: it is about another version, or was changed since.
    """
    told = about(path, version)
    if version.tags.get("leeway.verdict_digest") != sha256(path):
        what = f"{version.name} version {version.version}"
        raise PromotionError(f"{path.name} is not the verdict that was given on {what}.", "Run the gate again.")
    return told


def about(path: Path, version: ModelVersion) -> dict[str, Any]:
    """A verdict on this version, whether or not it is the last that was given.

    Raises:
        DataError: the file is none.
        PromotionError: it is about another version.
    """
    told, what = read_json(path, "the step `gate` writes it"), f"{version.name} version {version.version}"
    if not isinstance(told, dict):
        raise DataError(f"{path} is no verdict.", "The step `gate` writes it.")
    if (told.get("model_name"), told.get("version")) != (version.name, str(version.version)):
        raise PromotionError(f"the verdict is about {told.get('model_name')} {told.get('version')}, not {what}.")
    return told
