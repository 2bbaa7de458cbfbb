"""Runs DVC stages in a workspace of their own, over the cache that all workspaces share.

DVC locks its repository, so concurrent runs in one would fail; a workspace a run never meets a lock. What another run
computed from the same inputs comes out of the shared run cache, and what it computes now is waited for. Killed at any
moment, it leaves no half of anything, and goes on when it runs again. Idempotent: the same workspace again is a no-op.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pipelines.contract import Result, Spec
from pipelines.settings import settings
from pipelines.system.log import log


def _to_folder_name(name: str) -> str:
    """A name that is a single folder: what is not a letter, digit, dot, dash or underscore becomes a dash."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")
    if not safe:
        raise ValueError("a name with a letter or a digit is wanted")
    return safe[:200]


class ReproSpec(Spec):
    """Which stages, with which parameters, where."""

    workspace: Annotated[str, AfterValidator(_to_folder_name)]
    """Name of the workspace, unique to the run: a folder under LEEWAY_HOME/workspaces."""
    targets: Annotated[list[str], Field(min_length=1)]
    """Stages of dvc.yaml to bring up to date, with those that they depend on."""
    refresh: list[str] = Field(default_factory=list)
    """Stages to run afresh first, since their inputs lie outside DVC's sight (the lake, for `snapshot`)."""
    params: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Overrides of params.yaml: section to key to value."""
    commit: str = ""
    """Commit of the code; LEEWAY_GIT_COMMIT or the project's HEAD where it is not given."""
    push: bool = True
    """Whether the data go to LEEWAY_DVC_REMOTE, where one is set."""
    wait: bool = False
    """Whether to wait for a workspace that another task is in; else that is a conflict."""


class Output(BaseModel):
    """The data of one output."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    digest: str
    """DVC's MD5: names the version of the data."""
    size_bytes: int
    """Of all its files."""
    files: int
    """Their number; 1 where the output is a file."""


class ReproResult(Result):
    """Stages that are up to date."""

    workspace: Path
    """Folder that they ran in: outputs are where dvc.yaml says, below it."""
    lock: Path
    """Its dvc.lock."""
    lock_digest: str
    """SHA-256 of dvc.lock."""
    git_commit: str
    """Commit of the code, with '-dirty' where files differed from it."""
    stages: dict[str, dict[str, Output]]
    """Stage to output path to its data, of every stage in dvc.lock."""
    ran: list[str]
    """Stages whose command ran; the others were up to date or came from the run cache."""


def run(spec: ReproSpec) -> ReproResult:
    """The targets are up to date in the workspace.

    Raises:
        SpecError: params.yaml with the overrides is not valid, or dvc.yaml has no such stage, or git no such commit.
        ConflictError: another process is in this workspace. A retry can help.
        ServiceError: the remote does not answer. A retry can help.
        InvalidError, TryAgainError: a stage failed, as its exit code says.
    """
    from pipelines.system.files import sha256
    from pipelines.versioning import dvc_calls, runcache, workspaces

    with workspaces.open_workspace(spec.workspace, spec.params, spec.commit, wait=spec.wait) as space:
        runcache.fetch_entries()
        ran = [name for stage in spec.refresh for name in dvc_calls.repro(space, [stage], afresh=True)]
        with runcache.hold_stage_lock(space, spec.targets, spec.refresh):
            ran += dvc_calls.repro(space, spec.targets)
        if spec.push and settings().dvc_remote:
            dvc_calls.push(space, spec.targets)
            runcache.push_entries(space)
        lock = space.folder / "dvc.lock"
        log.info("workspace %s: ran %s", spec.workspace, ", ".join(ran) or "nothing, all of it was up to date")
        return ReproResult(
            workspace=space.folder,
            lock=lock,
            lock_digest=sha256(lock),
            git_commit=space.code.git_commit,
            stages=_read_outputs(lock),
            ran=ran,
        )


def _read_outputs(lock: Path) -> dict[str, dict[str, Output]]:
    import yaml

    told = yaml.safe_load(lock.read_text(encoding="utf-8"))["stages"]
    return {
        name: {
            out["path"]: Output(digest=out["md5"], size_bytes=out["size"], files=out.get("nfiles", 1))
            for out in stage.get("outs", [])
        }
        for name, stage in told.items()
    }
