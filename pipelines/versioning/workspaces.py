"""Open DVC workspaces: each run has a folder with the project's code and parameters, and all share one cache."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from pipelines import params
from pipelines.code_files import PARAMS_FILE
from pipelines.errors import ConflictError
from pipelines.settings import settings
from pipelines.system.files import replace_file
from pipelines.system.locks import hold_lock
from pipelines.system.log import log
from pipelines.versioning import checkouts
from pipelines.versioning.checkouts import Code
from pipelines.versioning.git import CODE_FILE, GitError, get_worktree_lock_path, run_git

REMOTE = "leeway"
"""Name of the remote in a workspace's configuration of DVC."""
DAY_S = 86_400
LOCK_BACKUP = ".dvc/lock.before"
"""Copy of dvc.lock as it was before `dvc repro` started. If it exists afterwards, DVC was killed, or failed with
another error than `pipelines.errors.InvalidError`."""


class _LockedData(BaseModel):
    path: str


class _LockedStage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cmd: str | list[str]
    deps: list[_LockedData] = []
    params: dict[str, dict[str, Any]] = {}
    outs: list[_LockedData] = []


class _LockFile(BaseModel):
    """The content of a dvc.lock, as far as DVC 3.67 checks it."""

    model_config = ConfigDict(extra="forbid")

    version: Literal["2.0"] = Field(alias="schema")
    stages: dict[str, _LockedStage] = {}
    datasets: Any = None


@dataclass(frozen=True)
class Workspace:
    """A folder with the project's code and a DVC repository. This process holds the folder's lock."""

    folder: Path
    model_folder: Path
    """Folder in which the model's stages run. If the project has no models, this is the workspace's folder."""
    code: Code
    lock_descriptor: int
    """File descriptor of the workspace's lock. DVC inherits it, so the lock is held as long as DVC runs."""


@contextmanager
def open_workspace(
    name: str,
    overrides: Mapping[str, Mapping[str, Any]] | None,
    commit: str = "",
    bundle_version: str = "",
    *,
    model: str = "",
    wait: bool = False,
) -> Iterator[Workspace]:
    """Prepare a workspace with the project's code and overridden parameters, and hold its lock while the block runs.

    Args:
        name: folder below LEEWAY_HOME/workspaces.
        overrides: values that replace those of the model's file, section to key to value; None: keep the file.
        commit: commit of the code; empty: the DAG bundle's commit, else LEEWAY_GIT_COMMIT, else the project's HEAD.
        bundle_version: version of the DAG bundle of the run; empty if it has none.
        model: name of the model; empty in a project without models.
        wait: whether to wait while another process holds the workspace.

    Raises:
        SpecError: the parameters are not valid with the overrides, or there is no such commit. A retry cannot help.
        ConflictError: another process holds the workspace, and `wait` is false. A retry can help.
    """
    folder = _get_workspaces_folder() / name
    _remove_unused_workspaces(except_name=name)
    with hold_lock(
        _get_workspace_lock_path(name), "" if wait else f"another process works in the workspace {name}."
    ) as lock_descriptor:
        code = checkouts.check_out(folder, commit, bundle_version)
        model_folder = params.find_model_folder(folder, model)
        if overrides is not None:
            _override_params(folder, model_folder, overrides, model)
        _configure_dvc(folder)
        _undo_unfinished_repro(folder)
        _remove_damaged_lock_file(folder / "dvc.lock")
        yield Workspace(folder, model_folder, code, lock_descriptor)


def get_cache_folder() -> Path:
    """Return the folder of DVC's cache, which all workspaces share."""
    return settings().home / "dvc" / "cache"


def _get_workspaces_folder() -> Path:
    return settings().home / "workspaces"


def _get_workspace_lock_path(name: str) -> Path:
    return _get_workspaces_folder() / ".locks" / name


def _remove_unused_workspaces(except_name: str) -> None:
    """Remove the workspaces that were not used for `workspace_days`, except those whose lock is held."""
    days = settings().workspace_days
    earliest_use = time.time() - days * DAY_S
    unused_folders = [
        path
        for path in _get_workspaces_folder().glob("[!.]*")
        if path.name != except_name and _get_last_use(path) < earliest_use
    ]
    removed_folders = [path for path in unused_folders if _remove_workspace_if_free(path)]
    if removed_folders:
        log.info("removed %d workspaces that were not used for %d days", len(removed_folders), days)
        with suppress(GitError), hold_lock(get_worktree_lock_path(settings().project)):
            run_git(settings().project, "worktree", "prune")


def _get_last_use(folder: Path) -> float:
    """Return when the workspace was last prepared, or got new data: seconds since the epoch."""
    paths = (folder, folder / CODE_FILE, folder / "dvc.lock", folder / "data")
    return max((path.stat().st_mtime for path in paths if path.exists()), default=time.time())


def _remove_workspace_if_free(folder: Path) -> bool:
    """Remove the workspace unless its lock is held; return whether it was removed."""
    lock = _get_workspace_lock_path(folder.name)
    with suppress(ConflictError), hold_lock(lock, f"another process works in the workspace {folder.name}."):
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)
        return True
    return False


def _override_params(folder: Path, model_folder: Path, overrides: Mapping[str, Mapping[str, Any]], model: str) -> None:
    """Write all parameters of the model, with the overrides, to params.yaml in its folder, and check them.

    This file is evidence of a version, so the sections of the project's params.yaml are in it, too.

    Raises:
        SpecError: the parameters are not valid. A retry cannot help.
    """
    sections = params.merge(params.load(folder, model), overrides)
    with replace_file(model_folder / PARAMS_FILE) as temporary:
        temporary.write_text(yaml.safe_dump(sections), encoding="utf-8")
    params.load(folder, model)


def _configure_dvc(folder: Path) -> None:
    (folder / ".dvc").mkdir(exist_ok=True)
    lines = [
        "[core]",
        "no_scm = true",
        "analytics = false",
        "check_update = false",
        # This folder is in the workspace, so that it is removed with the workspace.
        f"site_cache_dir = {folder / '.dvc' / 'site'}",
        *([f"remote = {REMOTE}"] if settings().dvc_remote else []),
        "[cache]",
        f"dir = {get_cache_folder()}",
        *_build_remote_lines(),
    ]
    (folder / ".dvc" / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _build_remote_lines() -> list[str]:
    url, endpoint = settings().dvc_remote, settings().s3_endpoint
    if not url:
        return []
    # As with other settings, a path is relative to the working directory; for DVC it would be relative to .dvc/config.
    lines = [f"['remote \"{REMOTE}\"']", f"url = {url if '://' in url else Path(url).absolute()}"]
    return [*lines, f"endpointurl = {endpoint}"] if url.startswith("s3://") and endpoint else lines


def _undo_unfinished_repro(folder: Path) -> None:
    """Restore dvc.lock if `dvc repro` was killed, or failed with an error other than `InvalidError`.

    Also remove the file in which DVC lists the locks of its processes: a killed DVC leaves its locks there.
    """
    (folder / ".dvc" / "tmp" / "rwlock").unlink(missing_ok=True)
    if (folder / LOCK_BACKUP).is_file():
        log.info("workspace %s: the last run of DVC did not finish; restored the earlier dvc.lock", folder.name)
        (folder / LOCK_BACKUP).replace(folder / "dvc.lock")
        if not (folder / "dvc.lock").stat().st_size:  # an empty copy: there was no dvc.lock before DVC started
            (folder / "dvc.lock").unlink()


def _remove_damaged_lock_file(path: Path) -> None:
    """Remove a dvc.lock that DVC would refuse. DVC then takes the outputs from the run cache."""
    if not path.is_file():
        return
    try:
        _LockFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (ValueError, yaml.YAMLError):
        log.warning("workspace %s: removed a damaged dvc.lock", path.parent.name)
        path.unlink()
