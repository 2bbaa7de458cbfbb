"""Workspaces for DVC: copies of the project's code and parameters, over one shared cache and run cache."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from pipelines import params
from pipelines.errors import ConflictError, DataError, InvalidError, LeewayError, ServiceError, SpecError, StorageError
from pipelines.files import whole
from pipelines.git import commit_of
from pipelines.outside import NO_SPACE_TEXTS
from pipelines.settings import settings

CODE = ("pipelines", "expectations", "dvc.yaml", "params.yaml")
RAN = re.compile(r"^Running stage '([^']+)'")
EXITED = re.compile(r"exited with (-?\d+)")
SAID = re.compile(r"^error: (.+)")


@contextmanager
def prepared(folder: Path, overrides: Mapping[str, Mapping[str, Any]]) -> Iterator[Path]:
    """`folder` is a DVC repository with the project's code now and its params with the overrides; held for the block.

    Raises:
        SpecError: the parameters are not valid with the overrides.
        ConflictError: another process holds the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"another process works in {folder.name}.", "Wait for it, or stop it.") from None
        _copy_code(folder)
        _override(folder, overrides)
        _configure(folder)
        yield folder


def repro(folder: Path, stages: Sequence[str], *, afresh: bool = False) -> list[str]:
    """The stages are up to date; returns those whose command ran.

    Args:
        folder: a prepared workspace.
        stages: names in dvc.yaml.
        afresh: run just these, whether they are up to date or not.

    Raises:
        InvalidError, TryAgainError: a stage failed, as its exit code says.
    """
    options = ["--single-item", "--force"] if afresh else []
    command = [sys.executable, "-m", "dvc", "repro", *options, *stages]
    with subprocess.Popen(
        command, cwd=folder, env=_environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        lines = [_show(line) for line in child.stdout or ()]
    if child.returncode:
        raise _failed(lines, child.returncode)
    return [match[1] for line in lines if (match := RAN.match(line))]


def outs(folder: Path) -> dict[str, str]:
    """Output path to its hash, of every stage in the workspace's dvc.lock."""
    stages = yaml.safe_load((folder / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    return {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", [])}


def _copy_code(folder: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__")
    for name in CODE:
        source, target = settings().project / name, folder / name
        if not source.exists():
            raise SpecError(f"{settings().project} has no {name}.", "Set LEEWAY_PROJECT to the project's folder.")
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=ignore)
        else:
            shutil.copy2(source, target)


def _override(folder: Path, overrides: Mapping[str, Mapping[str, Any]]) -> None:
    """Written even where nothing is overridden, so that equal parameters are equal bytes; then checked whole."""
    sections = params.load(folder)
    merged = {name: {**sections.get(name, {}), **overrides.get(name, {})} for name in {**sections, **overrides}}
    with whole(folder / params.FILE) as making:
        making.write_text(yaml.safe_dump(merged), encoding="utf-8")
    params.load(folder)


def _configure(folder: Path) -> None:
    shared = settings().home / "dvc"
    (folder / ".dvc").mkdir(exist_ok=True)
    lines = [
        "[core]",
        "no_scm = true",
        "analytics = false",
        "check_update = false",
        f"site_cache_dir = {shared / 'site'}",
        "[cache]",
        f"dir = {shared / 'cache'}",
    ]
    (folder / ".dvc" / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        # dvc.yaml says `python`: the one that runs this.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "LEEWAY_PROJECT": str(folder),
        "LEEWAY_HOME": str(settings().home),
        "LEEWAY_GIT_COMMIT": commit_of(settings().project),
        "DVC_NO_ANALYTICS": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _failed(lines: Sequence[str], code: int) -> LeewayError:
    """The stage's own error and branch where it told them, else DVC's last line."""
    told = [match[1] for line in lines if (match := SAID.match(line))]
    codes = [int(match[1]) for line in lines if (match := EXITED.search(line))]
    said = told[-1] if told else " ".join(line.strip() for line in lines[-3:])
    ended = codes[-1] if codes else code
    if ended < 0:
        return ServiceError(f"a process was stopped by signal {-ended}: {said}", "Run it again: what was done is kept.")
    if codes:
        return {2: DataError, 75: ServiceError}.get(ended, LeewayError)(said)
    return _dvcs_own(said)


def _dvcs_own(said: str) -> LeewayError:
    """DVC failed, not a stage."""
    if any(text in said for text in NO_SPACE_TEXTS):
        return StorageError(said, "Free some and run it again.")
    if "acquire lock" in said:
        return ConflictError(said)
    return SpecError(said) if "does not exist" in said or "not found" in said else InvalidError(said)


def _show(line: str) -> str:
    sys.stderr.write(line)
    return line
