"""Calls of DVC in a workspace: bring stages up to date, send and fetch their data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from pipelines.errors import (
    ConflictError,
    DataError,
    InvalidError,
    LeewayError,
    ServiceError,
    SpecError,
    StorageError,
    TryAgainError,
)
from pipelines.settings import settings
from pipelines.system.error_translation import NO_SPACE_TEXTS
from pipelines.versioning.workspaces import LOCK_BACKUP, Workspace

STAGE_LINE = re.compile(r"^Running stage '([^']+)'")
EXIT_CODE_LINE = re.compile(r"exited with (-?\d+)")
ERROR_LINE = re.compile(r"^error: (.+)")
TRIES = 3
"""Of a transfer to or from the remote; DVC sends again only what is missing."""


def repro(space: Workspace, stages: Sequence[str], *, afresh: bool = False) -> list[str]:
    """The stages are up to date; returns those whose command ran.

    Args:
        space: a prepared workspace.
        stages: names in dvc.yaml.
        afresh: run just these, whether they are up to date or not.

    Raises:
        InvalidError, TryAgainError: a stage failed, as its exit code says.
    """
    options = ["--single-item", "--force"] if afresh else ["--pull"] if settings().dvc_remote else []
    with _keep_lock_file(space.folder):
        lines = run_module(space, "dvc", "repro", *options, *stages)
    return [match[1] for line in lines if (match := STAGE_LINE.match(line))]


def push(space: Workspace, stages: Sequence[str]) -> None:
    """The remote has the data of the stages, as the workspace's dvc.lock names them.

    Raises:
        ServiceError: it does not take them, after `TRIES` attempts. A retry can help.
    """
    _retry_transfer(space, "push", *stages)


def pull(space: Workspace, stages: Sequence[str]) -> None:
    """The workspace has the data of the stages that its dvc.lock names: from the cache, else from the remote.

    Raises:
        InvalidError: neither has all of them.
        TryAgainError: the remote does not answer, after `TRIES` attempts.
    """
    if settings().dvc_remote:
        _retry_transfer(space, "pull", "--force", *stages)
    else:
        run_module(space, "dvc", "checkout", "--force", *stages)


def run_module(space: Workspace, module: str, *arguments: str, **variables: str) -> list[str]:
    """What `python -m MODULE ARGUMENTS` said in the workspace, with more variables; shown as it came.

    Raises:
        InvalidError, TryAgainError: it failed, as its exit code, or that of the stage that it ran, says.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=space.folder,
        env=_build_environment(space) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=[space.handle],
    ) as child:
        lines = [_write_line(line) for line in child.stdout or ()]
    if child.returncode:
        raise _explain_failure(lines, child.returncode)
    return lines


@contextmanager
def _keep_lock_file(folder: Path) -> Iterator[None]:
    """dvc.lock as it was is kept aside, until DVC has ended by itself: killed, it may leave half of one."""
    before, lock = folder / LOCK_BACKUP, folder / "dvc.lock"
    making = before.with_name("lock.making")
    if lock.is_file():
        shutil.copy2(lock, making)
    else:
        making.write_bytes(b"")
    making.replace(before)
    try:
        yield
    except InvalidError:
        before.unlink()
        raise
    before.unlink()


def _retry_transfer(space: Workspace, *arguments: str) -> None:
    tries = Retrying(
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(multiplier=1, max=10),
        retry=retry_if_exception_type(TryAgainError),
        reraise=True,
    )
    tries(run_module, space, "dvc", *arguments)


def _build_environment(space: Workspace) -> dict[str, str]:
    return {
        **os.environ,
        # dvc.yaml says `python`: the one that runs this.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "LEEWAY_PROJECT": str(space.folder),
        "LEEWAY_HOME": str(settings().home),
        "LEEWAY_GIT_COMMIT": space.code.git_commit,
        "DVC_NO_ANALYTICS": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _explain_failure(lines: Sequence[str], code: int) -> LeewayError:
    """The stage's own error and branch where it told them, else DVC's last line."""
    told = [match[1] for line in lines if (match := ERROR_LINE.match(line))]
    codes = [int(match[1]) for line in lines if (match := EXIT_CODE_LINE.search(line))]
    said = told[-1] if told else " ".join(line.strip() for line in lines[-3:])
    ended = codes[-1] if codes else code
    if ended < 0:
        return ServiceError(f"a process was stopped by signal {-ended}: {said}", "Run it again: what was done is kept.")
    if codes or (told and code in (InvalidError.exit_code, TryAgainError.exit_code)):
        return {2: DataError, 75: ServiceError}.get(ended, LeewayError)(said)
    return _explain_dvc_failure(said)


def _explain_dvc_failure(said: str) -> LeewayError:
    """DVC failed, not a stage."""
    if any(text in said for text in NO_SPACE_TEXTS):
        return StorageError(said, "Free some and run it again.")
    if "acquire lock" in said:
        return ConflictError(said)
    if any(text in said for text in ("Could not connect", "failed to connect", "failed to push", "failed to pull")):
        return ServiceError(said, "Is LEEWAY_DVC_REMOTE right, and the remote up?")
    return SpecError(said) if "does not exist" in said or "not found" in said else InvalidError(said)


def _write_line(line: str) -> str:
    sys.stderr.write(line)
    return line
