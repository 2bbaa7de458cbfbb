"""Test that a candidate is not compared with a champion of another task."""

from __future__ import annotations

import pytest
from mlflow.entities.model_registry import ModelVersion, ModelVersionTag

from pipelines.errors import DataError
from pipelines.registry.evidence import check_task


def make_version(**tags: str) -> ModelVersion:
    """Make a version with these tags."""
    named_tags = [ModelVersionTag(f"leeway.{name}", value) for name, value in tags.items()]
    return ModelVersion(name="arrivals", version="3", creation_timestamp=0, tags=named_tags)


def test_a_champion_of_another_task_is_refused() -> None:
    with pytest.raises(
        DataError, match="is a model of the task binary, but the candidate is a model of the task regression"
    ):
        check_task(make_version(task="binary"), "regression")


def test_a_champion_of_the_same_task_or_of_an_earlier_release_passes() -> None:
    check_task(make_version(task="binary"), "binary")
    check_task(make_version(), "multiclass")
