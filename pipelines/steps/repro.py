"""Runs DVC stages in a workspace of their own, over the cache that all workspaces share.

DVC locks its repository, so concurrent runs in one would fail; a workspace a run never meets a lock, and what another
run computed from the same inputs comes out of the shared run cache. Idempotent: the same workspace again is a no-op.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from pipelines.contract import Result, Spec
from pipelines.log import log
from pipelines.settings import settings


def _safe(name: str) -> str:
    """A name that is a single folder: what is not a letter, digit, dot, dash or underscore becomes a dash."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")
    if not safe:
        raise ValueError("a name with a letter or a digit is wanted")
    return safe[:200]


class ReproSpec(Spec):
    """Which stages, with which parameters, where."""

    workspace: Annotated[str, AfterValidator(_safe)]
    """Name of the workspace, unique to the run: a folder under LEEWAY_HOME/workspaces."""
    targets: Annotated[list[str], Field(min_length=1)]
    """Stages of dvc.yaml to bring up to date, with those that they depend on."""
    refresh: list[str] = Field(default_factory=list)
    """Stages to run afresh first, since their inputs lie outside DVC's sight (the lake, for `snapshot`)."""
    params: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Overrides of params.yaml: section to key to value."""


class ReproResult(Result):
    """Stages that are up to date."""

    workspace: Path
    """Folder that they ran in: outputs are where dvc.yaml says, below it."""
    lock: Path
    """Its dvc.lock."""
    lock_digest: str
    """SHA-256 of dvc.lock."""
    outs: dict[str, str]
    """Output path to its DVC hash: the version of the data."""
    ran: list[str]
    """Stages whose command ran; the others were up to date or came from the run cache."""


def run(spec: ReproSpec) -> ReproResult:
    """The targets are up to date in the workspace.

    Raises:
        SpecError: params.yaml with the overrides is not valid, or dvc.yaml has no such stage.
        ConflictError: another process is in this workspace. A retry can help.
        InvalidError, TryAgainError: a stage failed, as its exit code says.
    """
    from pipelines import workspaces
    from pipelines.files import sha256

    with workspaces.prepared(settings().home / "workspaces" / spec.workspace, spec.params) as folder:
        ran = [name for stage in spec.refresh for name in workspaces.repro(folder, [stage], afresh=True)]
        ran += workspaces.repro(folder, spec.targets)
        outs = workspaces.outs(folder)
        lock = folder / "dvc.lock"
        log.info("workspace %s: ran %s", spec.workspace, ", ".join(ran) or "nothing, all of it was up to date")
        return ReproResult(workspace=folder, lock=lock, lock_digest=sha256(lock), outs=outs, ran=ran)
