"""Workspaces for DVC: the project's code and parameters in a folder a run, over one shared cache and run cache."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipelines import params
from pipelines.errors import ConflictError
from pipelines.settings import PARAMS_FILE, settings
from pipelines.system.files import replace_file
from pipelines.system.locks import hold_lock
from pipelines.system.log import log
from pipelines.versioning import checkouts
from pipelines.versioning.checkouts import Code
from pipelines.versioning.git import GitError, lock_path, run_git

REMOTE = "leeway"
DAY_S = 86_400
LOCK_BACKUP = ".dvc/lock.before"
"""dvc.lock as it was before DVC started; there for as long as DVC runs."""


@dataclass(frozen=True)
class Workspace:
    """A DVC repository that is this process's."""

    folder: Path
    code: Code
    handle: int
    """Of its lock; DVC holds it too, so that it outlives this process where DVC does."""


@contextmanager
def open_workspace(
    name: str, overrides: Mapping[str, Mapping[str, Any]] | None, commit: str = "", *, wait: bool = False
) -> Iterator[Workspace]:
    """The workspace `name` is a DVC repository with the project's code, and its params overridden; held for the block.

    Args:
        name: folder below LEEWAY_HOME/workspaces.
        overrides: of params.yaml, section to key to value; None where the file is to stay as the code has it.
        commit: of the code; the project's own where it is empty.
        wait: for as long as another process holds it.

    Raises:
        SpecError: the parameters are not valid with the overrides, or there is no such commit.
        ConflictError: another process holds the folder. A retry can help.
    """
    folder = _workspaces_folder() / name
    _remove_unused(keep=name)
    with hold_lock(_lock_path(name), "" if wait else f"another process works in {name}.") as handle:
        code = checkouts.check_out(folder, commit)
        if overrides is not None:
            _override_params(folder, overrides)
        _configure_dvc(folder)
        _recover_from_kill(folder)
        yield Workspace(folder, code, handle)


def _workspaces_folder() -> Path:
    return settings().home / "workspaces"


def _lock_path(name: str) -> Path:
    return _workspaces_folder() / ".locks" / name


def _remove_unused(keep: str) -> None:
    """Workspaces that nobody used for `workspace_days` are gone; one that is held stays."""
    oldest = time.time() - settings().workspace_days * DAY_S
    gone = [
        one
        for one in _workspaces_folder().glob("[!.]*")
        if one.name != keep and _last_used(one) < oldest and _remove_if_free(one)
    ]
    if gone:
        log.info("%d workspaces of more than %d days ago are removed", len(gone), settings().workspace_days)
        with suppress(GitError), hold_lock(lock_path(settings().project)):
            run_git(settings().project, "worktree", "prune")


def _last_used(folder: Path) -> float:
    """When it was prepared last, or something was made in it."""
    places = (folder, folder / checkouts.CODE_FILE, folder / "data")
    return max((place.stat().st_mtime for place in places if place.exists()), default=time.time())


def _remove_if_free(folder: Path) -> bool:
    lock = _lock_path(folder.name)
    with suppress(ConflictError), hold_lock(lock, f"another process works in {folder.name}."):
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)
        return True
    return False


def _override_params(folder: Path, overrides: Mapping[str, Mapping[str, Any]]) -> None:
    """Written even where nothing is overridden, so that equal parameters are equal bytes; then checked whole."""
    sections = params.load(folder)
    merged = {name: {**sections.get(name, {}), **overrides.get(name, {})} for name in {**sections, **overrides}}
    with replace_file(folder / PARAMS_FILE) as making:
        making.write_text(yaml.safe_dump(merged), encoding="utf-8")
    params.load(folder)


def _configure_dvc(folder: Path) -> None:
    (folder / ".dvc").mkdir(exist_ok=True)
    lines = [
        "[core]",
        "no_scm = true",
        "analytics = false",
        "check_update = false",
        # In the workspace: it goes when the workspace goes.
        f"site_cache_dir = {folder / '.dvc' / 'site'}",
        *([f"remote = {REMOTE}"] if settings().dvc_remote else []),
        "[cache]",
        f"dir = {settings().home / 'dvc' / 'cache'}",
        *_remote_lines(),
    ]
    (folder / ".dvc" / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _remote_lines() -> list[str]:
    url, endpoint = settings().dvc_remote, settings().s3_endpoint
    if not url:
        return []
    # A folder is taken from where this process is, as other paths are; DVC would take it from .dvc/config.
    lines = [f"['remote \"{REMOTE}\"']", f"url = {url if '://' in url else Path(url).absolute()}"]
    return [*lines, f"endpointurl = {endpoint}"] if url.startswith("s3://") and endpoint else lines


def _recover_from_kill(folder: Path) -> None:
    """What a DVC that was killed left half-written is as it was before. Its own locks by PID are gone, too."""
    (folder / ".dvc" / "tmp" / "rwlock").unlink(missing_ok=True)
    if (folder / LOCK_BACKUP).is_file():
        log.info("workspace %s: DVC was stopped in the middle; going on from before it", folder.name)
        (folder / LOCK_BACKUP).replace(folder / "dvc.lock")
        if not (folder / "dvc.lock").stat().st_size:
            (folder / "dvc.lock").unlink()
