"""Find outputs that DVC copied from damaged files of its cache. Remove both: DVC then runs the stages again.

DVC 3.67 assumes that a read-only file of the cache is undamaged, and does not compare it with its digest.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pipelines.system.log import log
from pipelines.versioning import stages
from pipelines.versioning.workspaces import Workspace, get_cache_folder

FOLDER_SUFFIX = ".dir"
"""End of DVC's digest of a folder. The cache's file whose name is such a digest lists the folder's files, as JSON."""


def remove_damaged_outputs(workspace: Workspace, targets: Iterable[str], computed_stages: Iterable[str]) -> list[str]:
    """Remove the outputs with files that differ from dvc.lock, and the damaged files of the cache.

    Args:
        workspace: an open workspace, in which the targets are up to date.
        targets: names of stages; the stages that they depend on are examined, too.
        computed_stages: names of stages whose command ran just now. Their outputs are not examined.

    Returns:
        The paths of the removed outputs.
    """
    needed_stages = stages.select_with_dependencies(stages.load_stages(workspace.folder / "dvc.yaml"), targets)
    folders = {stage.name: workspace.folder / stage.folder for stage in needed_stages}
    examined_names = set(folders) - set(computed_stages)
    locked_stages = yaml.safe_load((workspace.folder / "dvc.lock").read_text(encoding="utf-8")).get("stages", {})
    return [
        out["path"]
        for name in sorted(examined_names & set(locked_stages))
        for out in locked_stages[name].get("outs", [])
        if _remove_if_damaged(folders[name], out)
    ]


def _remove_if_damaged(folder: Path, out: Mapping[str, Any]) -> bool:
    path = folder / out["path"]
    digests = _list_files(path, str(out.get("md5", "")))
    damaged_files = [file for file, digest in digests.items() if file.is_file() and _compute_md5(file) != digest]
    if not damaged_files:
        return False
    log.warning("%s: removed, because %d file(s) from DVC's cache are damaged", out["path"], len(damaged_files))
    for file in damaged_files:
        cached_file = _get_cached_file(digests[file])
        if cached_file.is_file() and _compute_md5(cached_file) != digests[file]:
            cached_file.unlink()
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return True


def _list_files(path: Path, digest: str) -> dict[Path, str]:
    """Return the files of an output with their MD5; empty if the list of a folder's files is missing or damaged."""
    if not digest.endswith(FOLDER_SUFFIX):
        return {path: digest} if digest else {}
    try:
        content = _get_cached_file(digest).read_bytes()
    except OSError:
        return {}
    if hashlib.md5(content).hexdigest() != digest.removesuffix(FOLDER_SUFFIX):  # noqa: S324  DVC's digest
        return {}
    return {path / entry["relpath"]: entry["md5"] for entry in json.loads(content)}


def _get_cached_file(digest: str) -> Path:
    return get_cache_folder() / "files" / "md5" / digest[:2] / digest[2:]


def _compute_md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
