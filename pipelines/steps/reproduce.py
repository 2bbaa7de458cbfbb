"""Rebuild a registered version from its lineage, and prove that features and metrics are the same.

The step checks out the version's code, restores dvc.lock, params.yaml and the pinned snapshot, builds the features
again, and evaluates the registered model on them. It changes nothing in the registry. Idempotent.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import StringConstraints

from pipelines.contract import Result, Spec
from pipelines.errors import DataError
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.registry.reproduction.comparison import Check, Comparison


class ReproduceSpec(Spec):
    """The version to rebuild."""

    argument: ClassVar[str] = "model_version"

    model_version: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$")]
    """NAME@VERSION or NAME@ALIAS: flights@3, flights@champion."""
    retrain: bool = False
    """Whether to train again as well, and compare the model byte for byte."""


class ReproduceResult(Result):
    """A version that was rebuilt, without differences."""

    model_name: str
    """Registered model."""
    version: str
    """Version that was rebuilt."""
    workspace: Path
    """Folder that the version was rebuilt in; reproduction.json there has every check."""
    git_commit: str
    """Commit of the version's code."""
    files: int
    """Number of feature files that are byte-identical."""
    metrics: int
    """Number of metrics that are equal to the last digit."""
    retrained: bool
    """Whether the model was trained again, and is byte-identical."""
    notes: list[str]
    """Differences that are not failures, at most ten: libraries have other versions, or DVC no longer has the original
    features to compare with."""


def run(spec: ReproduceSpec) -> ReproduceResult:
    """Rebuild the version, and compare it with its lineage; write every check to reproduction.json. Idempotent.

    Raises:
        DataError: there are differences, or there is no such version, or its run lacks what rebuilding needs. A retry
            cannot help.
        SpecError: the repository has no such commit. A retry cannot help.
        ServiceError: MLflow or DVC's remote does not answer. A retry can help.
    """
    from pipelines.registry.reproduction.rebuild import rebuild_version
    from pipelines.system.files import write_json

    name, version_or_alias = spec.model_version.split("@")
    comparison = rebuild_version(name, version_or_alias, retrain=spec.retrain)
    checks = [check.model_dump() for check in comparison.checks]
    write_json(comparison.workspace / "reproduction.json", {"checks": checks, "notes": comparison.notes})
    for note in comparison.notes:
        log.info("note: %s", note)
    differences = [check for check in comparison.checks if not check.is_same]
    if differences:
        _raise_differences(comparison, differences)
    # A check of a feature file has the name "features FILE", and one of a metric "metric NAME".
    check_kinds = [check.name.split(" ")[0] for check in comparison.checks]
    log.info("%s version %s is reproduced: %d checks", comparison.name, comparison.version, len(comparison.checks))
    return ReproduceResult(
        model_name=comparison.name,
        version=comparison.version,
        workspace=comparison.workspace,
        git_commit=comparison.git_commit,
        files=check_kinds.count("features"),
        metrics=check_kinds.count("metric"),
        retrained=spec.retrain,
        notes=comparison.notes[:10],
    )


def _raise_differences(comparison: Comparison, differences: list[Check]) -> None:
    for check in differences:
        log.warning("differs: %s", check.describe())
    lines = "; ".join(check.describe() for check in differences[:5])
    rest_text = f"; and {len(differences) - 5} more" if len(differences) > 5 else ""
    notes = [f"Also: {note}." for note in comparison.notes[:3]]
    raise DataError(
        f"{comparison.name} version {comparison.version} is not reproduced, {len(differences)} value(s) differ: "
        f"{lines}{rest_text}.",
        " ".join([*notes, f"All checks: {comparison.workspace / 'reproduction.json'}"]),
    )
