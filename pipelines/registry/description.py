"""Describe a registered version by its tags, and compare its tags and parameters with the champion's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlflow.entities.model_registry import ModelVersion

from pipelines.escaping import escape

WINDOW, SEPARATOR = "window", " | "
"""WINDOW: tag with the days of training and holdout, `first..last | first..last`. SEPARATOR: what separates the two."""
TRAINING_DAYS, HOLDOUT_DAYS = "training days", "holdout days"
"""Names of the two parts of the tag WINDOW in descriptions."""
ORIGIN_TAGS = ("as_of", WINDOW, "table", "snapshot_id", "data_version", "features_schema", "git_commit")
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
    """Return the cost of the version's training in US dollars; None if its tag is missing, or is not a number."""
    try:
        return float(version.tags["leeway.cost_usd"])
    except (KeyError, ValueError):
        return None


def format_summary(version: ModelVersion, outcome: str, reason: str, report: str) -> str:
    """Return the description of a judged version for its page in MLflow, in Markdown.

    Args:
        version: the version with its tags.
        outcome: outcome of the verdict.
        reason: reason of the verdict, in words.
        report: address of the report.
    """
    values = describe_version(version)
    counts = [version.tags.get(f"leeway.rows_{part}", "?") for part in ("train", "holdout")]
    lines = [
        f"**{outcome}**: {_escape_markdown(reason)}. [Report]({report})",
        f"Trained as of {values.get('as of', '?')} on {counts[0]} rows of {_escape_markdown(values.get('table', '?'))}"
        f" ({values.get(TRAINING_DAYS, '?')}), judged on {counts[1]} rows ({values.get(HOLDOUT_DAYS, '?')}).",
    ]
    origin = [f"{name} {values[name]}" for name in ("git commit", "dag run", "training job") if name in values]
    return "\n\n".join([*lines, _escape_markdown(", ".join(origin))]).strip()


def _escape_markdown(text: str) -> str:
    """Escape what would become a link, markup or HTML: values come from data and from people."""
    return re.sub(r"([\\`*_\[\]<>])", r"\\\1", escape(text))


def _read_tags(version: ModelVersion, names: tuple[str, ...]) -> dict[str, str]:
    """Return the values of the tags that the version has. The tag WINDOW gives two values, one for each part."""
    values: dict[str, str] = {}
    for name in names:
        text = version.tags.get(f"leeway.{name}", "")
        if name == WINDOW and SEPARATOR in text:
            training, holdout = text.replace("..", " to ").split(SEPARATOR, 1)
            values |= {TRAINING_DAYS: training, HOLDOUT_DAYS: holdout}
        elif text:
            values[name.replace("_", " ")] = text
    return values
