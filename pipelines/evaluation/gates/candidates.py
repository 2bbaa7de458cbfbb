"""What a registered candidate is, and what is otherwise with it than with the champion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.errors import DataError

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from pipelines.evaluation.gates.holdout import Holdout
    from pipelines.registry.versions import Registry

MADE_OF = ("as_of", "window", "table", "snapshot_id", "data_version", "features_schema", "git_commit")
FACTS = (*MADE_OF, "dag_run", "training_job", "cost_usd")
"""Tags of a version that say what it is."""


def facts(candidate: ModelVersion | None, rows: Holdout) -> dict[str, str]:
    """What the candidate is, for the page and for who has to agree; of one that is not registered its holdout only."""
    holdout = {"rows of holdout": f"{len(rows.label):,}", "rate": f"{rows.label.mean():.4f}"}
    return {**_named(candidate, FACTS), **holdout} if candidate else holdout


def differs(registry: Registry, candidate: ModelVersion, champion: ModelVersion) -> dict[str, list[str]]:
    """Name to the champion's and the candidate's, of what they were made of and of the training's parameters."""
    old, new = ({**_named(one, MADE_OF), **registry.params(one)} for one in (champion, candidate))
    return {name: [old.get(name, ""), new.get(name, "")] for name in {**old, **new} if old.get(name) != new.get(name)}


def judged_digest(registry: Registry, candidate: ModelVersion) -> str:
    """SHA-256 of the candidate's files.

    Raises:
        DataError: they are not those that were evaluated.
    """
    found = registry.digest(candidate)
    if found != candidate.tags.get("leeway.model_digest", found):
        what = f"the files of {candidate.name} version {candidate.version} are not those that were evaluated"
        raise DataError(f"{what}: digest {found[:12]}.", "Register it again: `evaluate`.")
    return found


def cost(version: ModelVersion) -> float | None:
    """What its training cost, US dollars; None where the ledger does not know it."""
    try:
        return float(version.tags["leeway.cost_usd"])
    except (KeyError, ValueError):
        return None


def _named(version: ModelVersion, names: tuple[str, ...]) -> dict[str, str]:
    return {name.replace("_", " "): version.tags[tag] for name in names if version.tags.get(tag := f"leeway.{name}")}
