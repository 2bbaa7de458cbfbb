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
from pipelines.settings import settings
from pipelines.system.files import sha256, whole
from pipelines.system.locks import held
from pipelines.versioning import stages
from pipelines.versioning.workspaces import Workspace

RUNS = "runs"
"""Folder of the entries, in DVC's cache as at its remote."""
NAME = re.compile(r"[0-9a-f]{64}")
"""Of an entry; what else lies there was left by a DVC that was killed."""


@contextmanager
def alone(space: Workspace, targets: Sequence[str], refreshed: Sequence[str]) -> Iterator[None]:
    """No other process brings the same stages up to date from the same inputs; it waits, and then finds them done."""
    lock = settings().home / "dvc" / "locks" / inputs_digest(space.folder, targets, refreshed)
    with held(lock):
        try:
            yield
        finally:
            lock.unlink()


def inputs_digest(folder: Path, targets: Sequence[str], refreshed: Sequence[str] = ()) -> str:
    """SHA-256 of all that decides what the targets become: commands, parameters, and files that no stage makes.

    Stages that were refreshed are done: what they made are files like any other.
    """
    known = stages.load(folder / "dvc.yaml")
    chosen = [stage for stage in stages.closure(known, targets) if stage.name not in refreshed]
    told: list[Any] = [[stage.name, stage.cmd, _given(folder, stage)] for stage in chosen]
    for path in sorted(stages.inputs(chosen)):
        told.append([path, sha256(folder / path) if (folder / path).exists() else ""])
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def fetch() -> int:
    """The local run cache has all entries of the remote's; returns how many came. Without a remote: none.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    with _remote() as (fs, root):
        found = fs.find(f"{root}/{RUNS}") if fs and fs.exists(f"{root}/{RUNS}") else []
        wanted = {_runs() / "/".join(path.rsplit("/", 3)[1:]): path for path in found}
        missing = {here: path for here, path in wanted.items() if NAME.fullmatch(here.name) and not here.exists()}
        for here, path in missing.items():
            with whole(here) as making:
                making.write_bytes(fs.cat_file(path))
        return len(missing)


def send(space: Workspace) -> int:
    """The remote's run cache has the entries of the workspace's stages; returns how many went. Their data went before.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    lock = yaml.safe_load((space.folder / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    outs = [_hashes(stage) for stage in lock.values()]
    with _remote() as (fs, root):
        there = {"/".join(path.rsplit("/", 3)[1:]) for path in fs.find(f"{root}/{RUNS}")} if fs else set()
        names = (str(path.relative_to(_runs())) for path in _runs().glob("*/*/*") if NAME.fullmatch(path.name))
        mine = [name for name in names if name not in there and _entry(name) in outs] if fs else []
        for name in mine:
            fs.makedirs(f"{root}/{RUNS}/{name.rpartition('/')[0]}", exist_ok=True)
            fs.pipe_file(f"{root}/{RUNS}/{name}", (_runs() / name).read_bytes())
        return len(mine)


def _given(folder: Path, stage: stages.Stage) -> list[Any]:
    """The stage's parameters with their values; of a file that is not params.yaml, the whole of it."""
    told = params.load(folder)
    return [
        [file, key, _value(told, key) if file == params.FILE else sha256(folder / file)] for file, key in stage.params
    ]


def _value(told: Mapping[str, Any], key: str) -> Any:
    found: Any = told
    for part in filter(None, key.split(".")):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _runs() -> Path:
    return settings().home / "dvc" / "cache" / RUNS


def _entry(name: str) -> list[tuple[str, str]] | None:
    """The outputs that an entry names; None where it is no entry: DVC, killed, leaves half of one."""
    try:
        return _hashes(yaml.safe_load((_runs() / name).read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return None


def _hashes(stage: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(out["path"], out["md5"]) for out in stage.get("outs", [])]


@contextmanager
def _remote() -> Iterator[tuple[Any, str]]:
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
