"""Rebuilds a registered version from its lineage, and proves that features and metrics are the same.

Checks out its code, restores dvc.lock, params.yaml and the pinned snapshot, builds the features afresh, and measures
the registered model on them. Changes nothing in the registry. Idempotent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, StringConstraints

from pipelines.contract import Result, Spec
from pipelines.errors import DataError
from pipelines.system.log import log


class ReproduceSpec(Spec):
    """Which version."""

    argument: ClassVar[str] = "model"

    model: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$")]
    """NAME@VERSION or NAME@ALIAS: flights@3, flights@champion."""
    retrain: bool = False
    """Whether to train again, too, and compare the model's bytes."""


class Check(BaseModel):
    """One thing that was compared."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    what: str
    """File, metric or digest."""
    recorded: str
    """As it was when the version was registered."""
    found: str
    """As it is now."""
    note: str = ""
    """More about a difference."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.recorded == self.found

    def line(self) -> str:
        """The difference in words."""
        more = f" ({self.note})" if self.note else ""
        return f"{self.what} was {_short(self.recorded)}, is {_short(self.found)}{more}"


class ReproduceResult(Result):
    """A version that was rebuilt, and is the same."""

    model_name: str
    """Registered model."""
    version: str
    """Its version."""
    workspace: Path
    """Folder that it was rebuilt in; reproduction.json there has every check."""
    git_commit: str
    """Commit of its code."""
    files: int
    """Files of features that are the same, byte for byte."""
    metrics: int
    """Metrics that are the same, to the last digit."""
    retrained: bool
    """Whether the model was trained again, and is the same, byte for byte."""
    notes: list[str]
    """What is different and did no harm: versions of libraries, a copy of the features that DVC lost."""


def run(spec: ReproduceSpec) -> ReproduceResult:
    """The version is what its lineage says; reproduction.json in the workspace has every check.

    Raises:
        DataError: something differs, and what, or there is no such version or it lacks its lineage.
        SpecError: the repository has no such commit.
        ServiceError: MLflow or the remote does not answer. A retry can help.
    """
    from pipelines.registry.reproduction import rebuilt
    from pipelines.system.files import write_json

    done = rebuilt(*spec.model.split("@"), retrain=spec.retrain)
    told = {"checks": [check.model_dump() for check in done.checks], "notes": done.notes}
    write_json(done.workspace / "reproduction.json", told)
    for note in done.notes:
        log.info("note: %s", note)
    differences = [check for check in done.checks if not check.same]
    if differences:
        _refuse(f"{done.name} version {done.version}", differences, done.notes, done.workspace)
    kinds = [check.what.split(" ")[0] for check in done.checks]
    log.info("%s version %s is reproduced: %d checks", done.name, done.version, len(done.checks))
    return ReproduceResult(
        model_name=done.name,
        version=done.version,
        workspace=done.workspace,
        git_commit=done.git_commit,
        files=kinds.count("features"),
        metrics=kinds.count("metric"),
        retrained=spec.retrain,
        notes=done.notes[:10],
    )


def _refuse(what: str, differences: list[Check], notes: list[str], workspace: Path) -> None:
    for check in differences:
        log.warning("differs: %s", check.line())
    lines = "; ".join(check.line() for check in differences[:5])
    more = f"; and {len(differences) - 5} more" if len(differences) > 5 else ""
    raise DataError(
        f"{what} is not reproduced, {len(differences)} things differ: {lines}{more}.",
        " ".join([*(f"Also: {note}." for note in notes[:3]), f"All of it: {workspace / 'reproduction.json'}"]),
    )


def _short(value: str) -> str:
    """A digest's beginning; anything else whole."""
    return f"{value[:12]}…" if len(value) == 64 else value or "not there"
