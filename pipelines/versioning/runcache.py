"""DVC's run cache on this machine and at the remote, and one computation at a time of the same thing.

A run cache entry says which outputs a stage made of which inputs. DVC 3.67 sends and fetches all entries of all runs
with all their data (`--run-cache`); here entries alone are fetched, and those of one workspace are sent.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from pipelines import params
from pipelines.errors import ServiceError
from pipelines.settings import PARAMS_FILE, settings
from pipelines.system.files import replace_file, sha256
from pipelines.system.locks import hold_lock
from pipelines.versioning import stages
from pipelines.versioning.workspaces import Workspace

RUNS = "runs"
"""Folder of the entries, in DVC's cache as at its remote."""
NAME = re.compile(r"[0-9a-f]{64}")
"""Of an entry; what else lies there was left by a DVC that was killed."""


@contextmanager
def hold_stage_lock(space: Workspace, targets: Sequence[str], refreshed: Sequence[str]) -> Iterator[None]:
    """No other process brings the same stages up to date from the same inputs; it waits, and then finds them done."""
    lock = settings().home / "dvc" / "locks" / digest_inputs(space.folder, targets, refreshed)
    with hold_lock(lock):
        try:
            yield
        finally:
            lock.unlink()


def digest_inputs(folder: Path, targets: Sequence[str], refreshed: Sequence[str] = ()) -> str:
    """SHA-256 of all that decides what the targets become: commands, parameters, and files that no stage makes.

    Stages that were refreshed are done: what they made are files like any other.
    """
    known = stages.load_stages(folder / "dvc.yaml")
    chosen = [stage for stage in stages.select_with_dependencies(known, targets) if stage.name not in refreshed]
    told: list[Any] = [[stage.name, stage.cmd, _read_params(folder, stage)] for stage in chosen]
    for path in sorted(stages.list_source_inputs(chosen)):
        told.append([path, sha256(folder / path) if (folder / path).exists() else ""])
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def fetch_entries() -> int:
    """The local run cache has all entries of the remote's; returns how many came. Without a remote: none.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    with _connect_remote() as (fs, root):
        found = fs.find(f"{root}/{RUNS}") if fs and fs.exists(f"{root}/{RUNS}") else []
        wanted = {_runs_folder() / "/".join(path.rsplit("/", 3)[1:]): path for path in found}
        missing = {here: path for here, path in wanted.items() if NAME.fullmatch(here.name) and not here.exists()}
        for here, path in missing.items():
            with replace_file(here) as making:
                making.write_bytes(fs.cat_file(path))
        return len(missing)


def push_entries(space: Workspace) -> int:
    """The remote's run cache has the entries of the workspace's stages; returns how many went. Their data went before.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    lock = yaml.safe_load((space.folder / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    outs = [_list_outputs(stage) for stage in lock.values()]
    with _connect_remote() as (fs, root):
        there = {"/".join(path.rsplit("/", 3)[1:]) for path in fs.find(f"{root}/{RUNS}")} if fs else set()
        names = (
            str(path.relative_to(_runs_folder())) for path in _runs_folder().glob("*/*/*") if NAME.fullmatch(path.name)
        )
        mine = [name for name in names if name not in there and _read_outputs(name) in outs] if fs else []
        for name in mine:
            fs.makedirs(f"{root}/{RUNS}/{name.rpartition('/')[0]}", exist_ok=True)
            fs.pipe_file(f"{root}/{RUNS}/{name}", (_runs_folder() / name).read_bytes())
        return len(mine)


def _read_params(folder: Path, stage: stages.Stage) -> list[Any]:
    """The stage's parameters with their values; of a file that is not params.yaml, the whole of it."""
    told = params.load(folder)
    return [
        [file, key, _look_up(told, key) if file == PARAMS_FILE else sha256(folder / file)] for file, key in stage.params
    ]


def _look_up(told: Mapping[str, Any], key: str) -> Any:
    found: Any = told
    for part in filter(None, key.split(".")):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _runs_folder() -> Path:
    return settings().home / "dvc" / "cache" / RUNS


def _read_outputs(name: str) -> list[tuple[str, str]] | None:
    """The outputs that an entry names; None where it is no entry: DVC, killed, leaves half of one."""
    try:
        return _list_outputs(yaml.safe_load((_runs_folder() / name).read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return None


def _list_outputs(stage: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(out["path"], out["md5"]) for out in stage.get("outs", [])]


@contextmanager
def _connect_remote() -> Iterator[tuple[Any, str]]:
    """The file system of the remote (fsspec) and its folder there; None where there is no remote."""
    url, endpoint = settings().dvc_remote, settings().s3_endpoint
    if not url:
        yield None, ""
        return
    from fsspec.core import url_to_fs

    options = {"endpoint_url": endpoint, "skip_instance_cache": True} if url.startswith("s3://") and endpoint else {}
    try:
        fs, root = url_to_fs(url, **options)
        yield fs, root
    except Exception as error:  # fsspec's backends raise what they like
        raise ServiceError(f"DVC's remote {url} failed: {type(error).__name__} {error}.", "Is it up?") from None
