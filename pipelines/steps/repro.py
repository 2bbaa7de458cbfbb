"""Run DVC stages in a workspace of their own, over a cache that all workspaces share.

DVC locks its repository, so concurrent runs in one repository would fail; each run has its own workspace instead. If
another run has computed a stage from the same inputs, its outputs come from the shared run cache. If another run is
computing them now, this run waits for it. A step that is killed leaves nothing incomplete, and resumes when it runs
again. Idempotent.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pipelines.contract import Result, Spec
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.versioning.workspaces import Workspace


def _make_folder_name(name: str) -> str:
    """Replace all characters but letters, digits, dots, dashes and underscores by dashes."""
    folder_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")
    if not folder_name:
        raise ValueError("the name needs a letter or a digit")
    return folder_name[:200]


class ReproSpec(Spec):
    """The stages to run, their parameters, and the workspace."""

    workspace: Annotated[str, AfterValidator(_make_folder_name)]
    """Name of the workspace, unique to the run: a folder under LEEWAY_HOME/workspaces."""
    targets: Annotated[list[str], Field(min_length=1)]
    """Stages of dvc.yaml to bring up to date, with the stages that they depend on. In a project with several
    models, `train` stands for the stage `train@MODEL`."""
    refresh: list[str] = Field(default_factory=list)
    """Stages to run first, even if DVC finds them up to date. DVC does not know all inputs of such a stage: for
    `snapshot`, the lake."""
    params: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Overrides of the model's params.yaml: maps each section to its keys and their values."""
    model: str = ""
    """Model whose stages run, with the parameters of models/NAME/params.yaml; empty in a project without models."""
    commit: str = ""
    """Commit of the code; empty: the DAG bundle's commit, else LEEWAY_GIT_COMMIT, else the project's HEAD."""
    bundle_version: str = ""
    """Version of the DAG bundle of the run. It becomes the commit of the code if `commit` is empty, the version is the
    hash of a commit, and the project is a git repository."""
    push: bool = True
    """Whether to push the data to LEEWAY_DVC_REMOTE, if that is set."""
    wait: bool = False
    """Whether to wait while another process uses the workspace; otherwise that is an error."""


class Output(BaseModel):
    """The data of one output of a stage."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    digest: str
    """DVC's MD5: the version of the data."""
    size_bytes: int
    """Size of all its files."""
    files: int
    """Number of its files; 1 if the output is a file."""


class ReproResult(Result):
    """Stages that are up to date."""

    workspace: Path
    """Folder in which the stages ran: the model's folder in the workspace. The output paths of dvc.yaml are relative to
    it."""
    lock: Path
    """The workspace's dvc.lock."""
    lock_digest: str
    """SHA-256 of dvc.lock."""
    git_commit: str
    """Commit of the code, with '-dirty' if files differed from it."""
    stages: dict[str, dict[str, Output]]
    """Maps each stage, without `@MODEL`, to its output paths, and each path to its data, for every stage in
    dvc.lock."""
    ran: list[str]
    """Stages, without `@MODEL`, whose command ran; all others were up to date, or came from the run cache."""


def run(spec: ReproSpec) -> ReproResult:
    """Bring the targets up to date in the workspace.

    Raises:
        SpecError: params.yaml with the overrides is not valid, dvc.yaml has no such stage, or git has no such commit.
            A retry cannot help.
        ConflictError: another process uses the workspace. A retry can help.
        ServiceError: the remote does not answer. A retry can help.
        InvalidError, RetryableError: a stage failed; its exit code says whether a retry can help.
    """
    from pipelines.system.files import sha256
    from pipelines.versioning import cached_outputs, dvc_calls, runcache, stages

    with _open_workspace(spec) as workspace:
        runcache.remove_damaged_entries()
        runcache.fetch_entries()
        all_stages = stages.load_stages(workspace.folder / "dvc.yaml")
        targets, refresh = (
            stages.name_stages_of_model(names, spec.model, all_stages) for names in (spec.targets, spec.refresh)
        )
        ran = [name for stage in refresh for name in dvc_calls.run_repro(workspace, [stage], force=True)]
        with runcache.hold_stage_lock(workspace, targets, refresh):
            ran += dvc_calls.run_repro(workspace, targets)
            if cached_outputs.remove_damaged_outputs(workspace, targets, ran):
                ran += dvc_calls.run_repro(workspace, targets)
        if spec.push and settings().dvc_remote:
            dvc_calls.push(workspace, targets)
            runcache.push_entries(workspace)
        ran = [stages.strip_model_suffix(name, spec.model) for name in ran]
        lock = workspace.folder / "dvc.lock"
        log.info("workspace %s: ran %s", spec.workspace, ", ".join(ran) or "nothing, all stages were up to date")
        return ReproResult(
            workspace=workspace.model_folder,
            lock=lock,
            lock_digest=sha256(lock),
            git_commit=workspace.code.git_commit,
            stages=_read_outputs(lock, spec.model),
            ran=ran,
        )


def _open_workspace(spec: ReproSpec) -> AbstractContextManager[Workspace]:
    from pipelines.versioning.workspaces import open_workspace

    return open_workspace(
        spec.workspace, spec.params, spec.commit, spec.bundle_version, model=spec.model, wait=spec.wait
    )


def _read_outputs(lock: Path, model: str) -> dict[str, dict[str, Output]]:
    """Read the outputs of each stage in dvc.lock, by stage and path."""
    import yaml

    from pipelines.versioning.stages import strip_model_suffix

    stages = yaml.safe_load(lock.read_text(encoding="utf-8"))["stages"]
    return {
        strip_model_suffix(name, model): {
            out["path"]: Output(digest=out["md5"], size_bytes=out["size"], files=out.get("nfiles", 1))
            for out in stage.get("outs", [])
        }
        for name, stage in stages.items()
    }
