"""Check that two versions have the same features, so that both can answer the same requests."""

from __future__ import annotations

from pathlib import Path

import mlflow
from mlflow.entities.model_registry import ModelVersion

from pipelines.errors import DataError

MAX_NAMES = 5
"""Largest number of features that the error names."""


def require_same_features(version: tuple[ModelVersion, Path], other_version: tuple[ModelVersion, Path]) -> None:
    """Check that a version has the same features as another version, in the same order and of the same types.

    Args:
        version: the version, and the folder of its package.
        other_version: the other version, and the folder of its package.

    Raises:
        DataError: the features differ, so the version could not answer the requests to the other version. A retry
            cannot help.
    """
    features, other_features = (_read_features(package) for _, package in (version, other_version))
    if list(features.items()) == list(other_features.items()):
        return
    changes = [f"+{name}" for name in features if name not in other_features]
    changes += [f"-{name}" for name in other_features if name not in features]
    changes += [
        f"{name} ({type_name})"
        for name, type_name in features.items()
        if _has_other_type(name, type_name, other_features)
    ]
    number, other_number = version[0].version, other_version[0].version
    names = ", ".join(changes[:MAX_NAMES]) + (", ..." if len(changes) > MAX_NAMES else "")
    raise DataError(
        f"{version[0].name} version {number} has other features than version {other_number}: {names or 'the order'}.",
        "It cannot answer the same requests: release it without a shadow, with shadow_minutes: 0.",
    )


def _read_features(package: Path) -> dict[str, str]:
    """Return the features of a package with their types, in the order of its signature."""
    signature = mlflow.models.get_model_info(str(package)).signature
    return {str(column.name): str(column.type) for column in signature.inputs.inputs}


def _has_other_type(name: str, type_name: str, other_types: dict[str, str]) -> bool:
    return other_types.get(name, type_name) != type_name
