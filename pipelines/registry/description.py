"""Describe a registered version by its tags and parameters, and compare it with the champion."""

from __future__ import annotations

from collections.abc import Mapping

from mlflow.entities.model_registry import ModelVersion

ORIGIN_TAGS = ("as_of", "window", "table", "snapshot_id", "data_version", "features_schema", "git_commit")
"""Tags that name the data and the code from which a version was made; without the prefix `leeway.`."""
DESCRIPTION_TAGS = (*ORIGIN_TAGS, "dag_run", "training_job", "cost_usd")
"""Tags that describe a version to a person; without the prefix `leeway.`."""


def describe_version(version: ModelVersion) -> dict[str, str]:
    """Return the tags that describe a version: name to value. The names have spaces instead of underscores."""
    return _read_tags(version, DESCRIPTION_TAGS)


def compare_versions(
    champion: ModelVersion,
    champion_params: Mapping[str, str],
    candidate: ModelVersion,
    candidate_params: Mapping[str, str],
) -> dict[str, list[str]]:
    """Return the differences in data, code and parameters: name to two values, the champion's and the candidate's."""
    champion_values = {**_read_tags(champion, ORIGIN_TAGS), **champion_params}
    candidate_values = {**_read_tags(candidate, ORIGIN_TAGS), **candidate_params}
    return {
        name: [champion_values.get(name, ""), candidate_values.get(name, "")]
        for name in {**champion_values, **candidate_values}
        if champion_values.get(name) != candidate_values.get(name)
    }


def read_cost_usd(version: ModelVersion) -> float | None:
    """Return the cost of the version's training in US dollars; None if the version has no such tag."""
    try:
        return float(version.tags["leeway.cost_usd"])
    except (KeyError, ValueError):
        return None


def _read_tags(version: ModelVersion, names: tuple[str, ...]) -> dict[str, str]:
    return {name.replace("_", " "): version.tags[tag] for name in names if version.tags.get(tag := f"leeway.{name}")}
