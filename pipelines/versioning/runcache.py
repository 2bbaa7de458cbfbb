"""Fetch and push entries of DVC's run cache, and keep two processes from computing the same stages at the same time.

An entry of the run cache records the inputs and the outputs of one run of a stage. DVC 3.67 transfers the entries of
all runs with all their data (`--run-cache`). This module fetches entries without data, and pushes those of one
workspace.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from pipelines import params
from pipelines.code_files import PARAMS_FILE, find_model, find_project
from pipelines.errors import ServiceError
from pipelines.settings import settings
from pipelines.system.files import digest_files, replace_file, sha256
from pipelines.system.locks import hold_lock
from pipelines.system.log import log
from pipelines.versioning import stages
from pipelines.versioning.workspaces import Workspace, get_cache_folder

RUNS = "runs"
"""Folder of the entries, in DVC's cache and at its remote."""
MAX_WRITE_S = 1.0
"""Longest time, in seconds, between DVC's creation of a folder and its writing of the entry in it."""
BYTECODE_FOLDER = "__pycache__"
ENTRY_FILE_NAME = re.compile(r"[0-9a-f]{64}")
"""Name of an entry's file. Any other file in the folder is incomplete: DVC was killed while it wrote it."""


@contextmanager
def hold_stage_lock(workspace: Workspace, targets: Sequence[str], finished_stages: Sequence[str]) -> Iterator[None]:
    """Keep other processes from computing the same stages from the same inputs while the block runs.

    A process that waits for the lock finds the stages in the run cache afterwards. For the arguments, see
    `digest_inputs`.
    """
    lock = settings().home / "dvc" / "locks" / digest_inputs(workspace.folder, targets, finished_stages)
    with hold_lock(lock):
        try:
            yield
        finally:
            lock.unlink()


def digest_inputs(folder: Path, targets: Sequence[str], finished_stages: Sequence[str] = ()) -> str:
    """Return the SHA-256 of everything that determines the outputs of the targets: commands, parameters, source files.

    Args:
        folder: folder of the workspace.
        targets: names of stages.
        finished_stages: names of stages that ran already. Their outputs are treated as source files.
    """
    all_stages = stages.load_stages(folder / "dvc.yaml")
    needed_stages = stages.select_with_dependencies(all_stages, targets)
    pending_stages = [stage for stage in needed_stages if stage.name not in finished_stages]
    inputs: list[Any] = []
    for stage in pending_stages:
        # Paths are relative to the stage's folder, so models with equal inputs share their outputs in DVC's run cache.
        paths = sorted(stages.list_source_inputs(stage, pending_stages))
        sources = [[stage.make_relative(path), _digest_source(folder / path)] for path in paths]
        inputs.append([stage.cmd, _read_params(folder, stage), sources])
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


def remove_damaged_entries() -> None:
    """Remove entries that are not UTF-8, and folders without an entry: every run that needs one of them would fail.

    DVC 3.67 itself removes other damaged entries. But if DVC is killed before it has written an entry, the
    folder of the entry remains.
    """
    for path in filter(_is_entry, _get_runs_folder().glob("*/*/*")):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            log.warning("removed a damaged entry of DVC's run cache: %s", path)
            path.unlink(missing_ok=True)
            _remove_folder_if_empty(path.parent)
        except FileNotFoundError:  # another process removed it
            continue
    # DVC may still write an entry into a folder that changed later than this.
    time_limit = time.time() - MAX_WRITE_S
    for folder in _get_runs_folder().glob("*/*"):
        with suppress(FileNotFoundError):  # another process removed it
            if folder.stat().st_mtime < time_limit:
                _remove_folder_if_empty(folder)


def _remove_folder_if_empty(folder: Path) -> None:
    with suppress(OSError):  # the folder has an entry, or is gone
        folder.rmdir()


def fetch_entries() -> int:
    """Copy from the remote all entries that this machine lacks; return their number, 0 without a remote.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    with _connect_remote() as (file_system, root):
        # `exists` is not used: for most stores, fsspec returns False from it after any error.
        paths = file_system.find(f"{root}/{RUNS}") if file_system else []
        remote_paths = {_get_runs_folder() / _get_entry_name(path): path for path in paths}
        missing_paths = {file: path for file, path in remote_paths.items() if _is_entry(file) and not file.exists()}
        for file, path in missing_paths.items():
            with replace_file(file) as temporary:
                temporary.write_bytes(file_system.cat_file(path))
        return len(missing_paths)


def push_entries(workspace: Workspace) -> int:
    """Copy entries of the workspace's stages to the remote if it lacks them; return how many were copied.

    Push the data of the stages first, so that the remote has the outputs that the entries name.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    locked_stages = yaml.safe_load((workspace.folder / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    outputs = [_list_outputs(stage) for stage in locked_stages.values()]
    with _connect_remote() as (file_system, root):
        if not file_system:
            return 0
        remote_names = {_get_entry_name(path) for path in file_system.find(f"{root}/{RUNS}")}
        names = [
            str(path.relative_to(_get_runs_folder())) for path in _get_runs_folder().glob("*/*/*") if _is_entry(path)
        ]
        new_names = [name for name in names if name not in remote_names and _read_outputs(name) in outputs]
        for name in new_names:
            file_system.makedirs(f"{root}/{RUNS}/{name.rpartition('/')[0]}", exist_ok=True)
            file_system.pipe_file(f"{root}/{RUNS}/{name}", (_get_runs_folder() / name).read_bytes())
        return len(new_names)


def _digest_source(path: Path) -> str | dict[str, str]:
    """Return the digest of a file, or the digests of the files in a folder by name; empty if the path does not exist.

    Bytecode is left out, as .dvcignore does: Python writes it into each workspace, with the times of the files there.
    """
    if path.is_dir():
        digests = digest_files(path).items()
        return {name: digest for name, digest in digests if BYTECODE_FOLDER not in PurePosixPath(name).parts}
    return sha256(path) if path.exists() else ""


def _read_params(folder: Path, stage: stages.Stage) -> list[Any]:
    """Return the stage's parameters with their values; for a file other than params.yaml, the digest of the file."""
    return [[stage.make_relative(file), key, _read_value(folder, file, key)] for file, key in stage.params]


def _read_value(folder: Path, file: str, key: str) -> Any:
    path = folder / file
    if path.name != PARAMS_FILE or find_project(path.parent) != folder.absolute():
        return sha256(path)
    return _look_up(params.load(folder, find_model(path.parent)), key)


def _look_up(sections: Mapping[str, Any], key: str) -> Any:
    value: Any = sections
    for part in filter(None, key.split(".")):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _get_runs_folder() -> Path:
    return get_cache_folder() / RUNS


def _get_entry_name(path: str) -> str:
    """Return the name of an entry, which is its path below `RUNS`, from its path at the remote."""
    return "/".join(path.rsplit("/", 3)[1:])


def _is_entry(path: Path) -> bool:
    return ENTRY_FILE_NAME.fullmatch(path.name) is not None


def _read_outputs(name: str) -> list[tuple[str, str]] | None:
    """Return path and digest of each output of an entry; None if the file is incomplete, because DVC was killed."""
    try:
        return _list_outputs(yaml.safe_load((_get_runs_folder() / name).read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return None


def _list_outputs(stage: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(out["path"], out["md5"]) for out in stage.get("outs", [])]


@contextmanager
def _connect_remote() -> Iterator[tuple[Any, str]]:
    """Yield the remote's file system (fsspec) and DVC's folder in it; None and "" if there is no remote.

    Raises:
        ServiceError: the remote does not answer. A retry can help.
    """
    url, endpoint = settings().dvc_remote, settings().s3_endpoint
    if not url:
        yield None, ""
        return
    from fsspec.core import url_to_fs

    options = {"endpoint_url": endpoint, "skip_instance_cache": True} if url.startswith("s3://") and endpoint else {}
    try:
        file_system, root = url_to_fs(url, **options)
        yield file_system, root
    except Exception as error:  # fsspec's backends raise errors of any type
        raise ServiceError(
            f"DVC's remote {url} failed: {type(error).__name__} {error}.", "Check whether it is up."
        ) from None
