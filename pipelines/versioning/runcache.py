"""DVC's run cache here and at the remote, and a lock so that the same stages are computed once at a time.

An entry of the run cache records which outputs a stage made of which inputs. DVC 3.67 transfers the entries of all
runs with all their data (`--run-cache`). This module fetches entries only, and pushes those of one workspace.
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
"""Folder of the entries, in DVC's cache and at its remote."""
NAME = re.compile(r"[0-9a-f]{64}")
"""Name of an entry; other files in the folder were left by a DVC that was killed."""


@contextmanager
def hold_stage_lock(workspace: Workspace, targets: Sequence[str], refreshed: Sequence[str]) -> Iterator[None]:
    """Keep other processes from computing the same stages from the same inputs while the block runs.

    A process that waits for the lock finds the stages in the run cache afterwards.
    """
    lock = settings().home / "dvc" / "locks" / digest_inputs(workspace.folder, targets, refreshed)
    with hold_lock(lock):
        try:
            yield
        finally:
            lock.unlink()


def digest_inputs(folder: Path, targets: Sequence[str], refreshed: Sequence[str] = ()) -> str:
    """Return the SHA-256 of all that decides the outputs of the targets: commands, parameters and source files.

    Args:
        folder: of the workspace.
        targets: names of stages.
        refreshed: stages that ran already: their outputs count as source files.
    """
    known = stages.load_stages(folder / "dvc.yaml")
    selected = [stage for stage in stages.select_with_dependencies(known, targets) if stage.name not in refreshed]
    inputs: list[Any] = [[stage.name, stage.cmd, _read_params(folder, stage)] for stage in selected]
    for path in sorted(stages.list_source_inputs(selected)):
        inputs.append([path, sha256(folder / path) if (folder / path).exists() else ""])
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


def fetch_entries() -> int:
    """Copy to this machine all entries of the remote that it lacks; return their number. 0 without a remote.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    with _connect_remote() as (remote, root):
        paths = remote.find(f"{root}/{RUNS}") if remote and remote.exists(f"{root}/{RUNS}") else []
        targets = {_get_runs_folder() / "/".join(path.rsplit("/", 3)[1:]): path for path in paths}
        missing = {target: path for target, path in targets.items() if _is_entry(target) and not target.exists()}
        for target, path in missing.items():
            with replace_file(target) as temporary:
                temporary.write_bytes(remote.cat_file(path))
        return len(missing)


def push_entries(workspace: Workspace) -> int:
    """Copy to the remote the entries of the workspace's stages; return their number. Push the stages' data first.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    lock = yaml.safe_load((workspace.folder / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    outputs = [_list_outputs(stage) for stage in lock.values()]
    with _connect_remote() as (remote, root):
        if not remote:
            return 0
        present = {"/".join(path.rsplit("/", 3)[1:]) for path in remote.find(f"{root}/{RUNS}")}
        names = [
            str(path.relative_to(_get_runs_folder())) for path in _get_runs_folder().glob("*/*/*") if _is_entry(path)
        ]
        pushed = [name for name in names if name not in present and _read_outputs(name) in outputs]
        for name in pushed:
            remote.makedirs(f"{root}/{RUNS}/{name.rpartition('/')[0]}", exist_ok=True)
            remote.pipe_file(f"{root}/{RUNS}/{name}", (_get_runs_folder() / name).read_bytes())
        return len(pushed)


def _read_params(folder: Path, stage: stages.Stage) -> list[Any]:
    """Return the stage's parameters with their values; for a file other than params.yaml, the digest of the file."""
    sections = params.load(folder)
    return [
        [file, key, _look_up(sections, key) if file == PARAMS_FILE else sha256(folder / file)]
        for file, key in stage.params
    ]


def _look_up(sections: Mapping[str, Any], key: str) -> Any:
    value: Any = sections
    for part in filter(None, key.split(".")):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _get_runs_folder() -> Path:
    return settings().home / "dvc" / "cache" / RUNS


def _is_entry(path: Path) -> bool:
    return NAME.fullmatch(path.name) is not None


def _read_outputs(name: str) -> list[tuple[str, str]] | None:
    """Return the outputs of an entry; None where the file is incomplete: DVC was killed while it wrote it."""
    try:
        return _list_outputs(yaml.safe_load((_get_runs_folder() / name).read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return None


def _list_outputs(stage: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(out["path"], out["md5"]) for out in stage.get("outs", [])]


@contextmanager
def _connect_remote() -> Iterator[tuple[Any, str]]:
    """Yield the remote's file system (fsspec) and its folder there; None and "" where there is no remote."""
    url, endpoint = settings().dvc_remote, settings().s3_endpoint
    if not url:
        yield None, ""
        return
    from fsspec.core import url_to_fs

    options = {"endpoint_url": endpoint, "skip_instance_cache": True} if url.startswith("s3://") and endpoint else {}
    try:
        remote, root = url_to_fs(url, **options)
        yield remote, root
    except Exception as error:  # fsspec's backends raise errors of any type
        raise ServiceError(f"DVC's remote {url} failed: {type(error).__name__} {error}.", "Is it up?") from None
