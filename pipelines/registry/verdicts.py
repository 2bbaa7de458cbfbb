"""Read the file of a verdict, and check that it belongs to a version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DataError, PromotionError
from pipelines.system.files import read_json, sha256

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


def read_current_verdict(path: Path, version: ModelVersion) -> dict[str, Any]:
    """Read a verdict, and check that it is the latest one: a tag of the version has the digest of the latest verdict.

    Raises:
        DataError: the file is not a verdict. A retry cannot help.
        PromotionError: the verdict is about another version, or is not the latest. A retry cannot help.
    """
    verdict = read_verdict(path, version)
    if version.tags.get("leeway.verdict_digest") != sha256(path):
        raise PromotionError(
            f"{path.name} is not the gate's latest verdict on {version.name} version {version.version}.",
            "Run the gate again.",
        )
    return verdict


def read_verdict(path: Path, version: ModelVersion) -> dict[str, Any]:
    """Read a verdict about the version. It need not be the latest one.

    Raises:
        DataError: the file is not a verdict. A retry cannot help.
        PromotionError: the verdict is about another version. A retry cannot help.
    """
    verdict = read_json(path, "the step `gate` writes it")
    if not isinstance(verdict, dict):
        raise DataError(f"{path} is not a verdict.", "The step `gate` writes it.")
    if (verdict.get("model_name"), verdict.get("version")) != (version.name, str(version.version)):
        raise PromotionError(
            f"the verdict is about {verdict.get('model_name')} version {verdict.get('version')}, "
            f"not {version.name} version {version.version}.",
            "Give the file that `gate` wrote for this version.",
        )
    return verdict
