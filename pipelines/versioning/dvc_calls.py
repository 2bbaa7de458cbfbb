"""Run DVC or a step in a workspace: bring stages up to date, push and pull their data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from pipelines.errors import (
    ConflictError,
    DataError,
    InvalidError,
    LeewayError,
    RetryableError,
    ServiceError,
    SpecError,
    StorageError,
)
from pipelines.settings import settings
from pipelines.system.error_translation import NO_SPACE_TEXTS
from pipelines.versioning.workspaces import LOCK_BACKUP, Workspace

STAGE_LINE = re.compile(r"^Running stage '([^']+)'")
"""Line of DVC's output with the name of a stage that it runs."""
EXIT_CODE_LINE = re.compile(r"exited with (-?\d+)")
"""Line of DVC's output with the exit code of a stage that failed."""
ERROR_LINE = re.compile(r"^error: (.+)")
"""Line of a step's output with the step's error."""
ATTEMPTS = 3
"""Attempts of a transfer to or from the remote; a retry transfers only what is missing."""


def run_repro(workspace: Workspace, stages: Sequence[str], *, force: bool = False) -> list[str]:
    """Bring stages, and all stages that they depend on, up to date.

    Args:
        workspace: an open workspace.
        stages: names in dvc.yaml.
        force: run exactly these stages, even if they are up to date.

    Returns:
        The stages whose command ran.

    Raises:
        InvalidError, RetryableError: DVC itself failed; or a stage failed, and its exit code, 2 or 75, says whether a
            retry can help.
        LeewayError: a stage ended with another exit code, and not by a signal: it has a bug.
    """
    options = ["--single-item", "--force"] if force else ["--pull"] if settings().dvc_remote else []
    with _back_up_lock_file(workspace.folder):
        lines = _run_dvc(workspace, "repro", *options, *stages)
    return [match[1] for line in lines if (match := STAGE_LINE.match(line))]


def push(workspace: Workspace, stages: Sequence[str]) -> None:
    """Push the data of the stages, which the workspace's dvc.lock lists, to the remote. Idempotent.

    Raises:
        ServiceError: the remote failed `ATTEMPTS` times. A retry can help.
    """
    _retry_transfer(workspace, "push", *stages)


def pull(workspace: Workspace, stages: Sequence[str]) -> None:
    """Put the data of the stages, which dvc.lock lists, into the workspace: from the cache, or else from the remote.

    Raises:
        InvalidError: the data are neither in the cache nor at the remote. A retry cannot help.
        RetryableError: the remote failed `ATTEMPTS` times. A retry can help.
    """
    if settings().dvc_remote:
        _retry_transfer(workspace, "pull", "--force", *stages)
    else:
        _run_dvc(workspace, "checkout", "--force", *stages)


def run_step(workspace: Workspace, step: str, *arguments: str, **variables: str) -> None:
    """Run `python -m pipelines STEP ARGUMENTS` with the workspace's code, in the folder of its model.

    Args:
        workspace: an open workspace.
        step: name of the step.
        arguments: arguments of the command line.
        variables: environment variables, in addition to those of this process.

    Raises:
        InvalidError, RetryableError: the step failed. Exit code 2 or 75 says whether a retry can help. After a signal,
            it can; after any other exit code, the text of the output decides.
    """
    paths = [str(workspace.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PYTHONPATH": os.pathsep.join(paths), **variables}
    _run_module(workspace, workspace.model_folder, "pipelines", [step, *arguments], variables)


def _run_dvc(workspace: Workspace, *arguments: str) -> list[str]:
    return _run_module(workspace, workspace.folder, "dvc", arguments, variables={})


def _run_module(
    workspace: Workspace, folder: Path, module: str, arguments: Sequence[str], variables: Mapping[str, str]
) -> list[str]:
    """Run `python -m MODULE ARGUMENTS` in the folder, pass its output on to stderr, and return the lines.

    Raises:
        InvalidError, RetryableError: the module failed, or a stage that it ran: see `_explain_failure`.
        LeewayError: a stage ended with an exit code other than 2 or 75, and not by a signal: it has a bug.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env={**_build_environment(workspace), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=[workspace.lock_descriptor],  # so the workspace stays locked as long as the child runs
    ) as child:
        lines = [_write_line(line) for line in child.stdout or ()]
    if child.returncode:
        raise _explain_failure(lines, child.returncode)
    return lines


@contextmanager
def _back_up_lock_file(folder: Path) -> Iterator[None]:
    """Back up dvc.lock while DVC runs, because a killed DVC can leave an incomplete dvc.lock.

    The copy is removed after a success or an `InvalidError`. After any other error it stays, and the next use of the
    workspace restores it.
    """
    backup, lock = folder / LOCK_BACKUP, folder / "dvc.lock"
    temporary = backup.with_name("lock.making")
    if lock.is_file():
        shutil.copy2(lock, temporary)
    else:
        temporary.write_bytes(b"")
    temporary.replace(backup)
    try:
        yield
    except InvalidError:
        backup.unlink()
        raise
    backup.unlink()


def _retry_transfer(workspace: Workspace, *arguments: str) -> None:
    retryer = Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=1, max=10),
        retry=retry_if_exception_type(RetryableError),
        reraise=True,
    )
    retryer(_run_dvc, workspace, *arguments)


def _build_environment(workspace: Workspace) -> dict[str, str]:
    return {
        **os.environ,
        # With this path, `python` in dvc.yaml is the interpreter that runs this process.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "LEEWAY_PROJECT": str(workspace.folder),
        "LEEWAY_HOME": str(settings().home),
        "LEEWAY_GIT_COMMIT": workspace.code.git_commit,
        "DVC_NO_ANALYTICS": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _explain_failure(lines: Sequence[str], exit_code: int) -> LeewayError:
    """Return the error for a failure of DVC or of a step. Its text is the error line of what failed, or the last lines.

    The exit code of the stage, or exit code 2 or 75 of the step, decides the kind of the error. Without such a
    code, the text does. After a signal, a retry can help.
    """
    errors = [match[1] for line in lines if (match := ERROR_LINE.match(line))]
    stage_exit_codes = [int(match[1]) for line in lines if (match := EXIT_CODE_LINE.search(line))]
    text = errors[-1] if errors else " ".join(line.strip() for line in lines[-3:])
    failed_exit_code = stage_exit_codes[-1] if stage_exit_codes else exit_code
    if failed_exit_code < 0:
        return ServiceError(
            f"a process was stopped by signal {-failed_exit_code}: {text}", "Run it again: finished work is kept."
        )
    if stage_exit_codes or (errors and exit_code in (InvalidError.exit_code, RetryableError.exit_code)):
        return {2: DataError, 75: ServiceError}.get(failed_exit_code, LeewayError)(text)
    return _explain_dvc_failure(text)


def _explain_dvc_failure(text: str) -> LeewayError:
    """Return the error, chosen by its text, for a failure of DVC itself, or of a step without exit code 2 or 75."""
    if any(no_space in text for no_space in NO_SPACE_TEXTS):
        return StorageError(text, "Free some space and run it again.")
    if "acquire lock" in text:
        return ConflictError(text)
    if any(phrase in text for phrase in ("Could not connect", "failed to connect", "failed to push", "failed to pull")):
        return ServiceError(text, "Check LEEWAY_DVC_REMOTE, and whether the remote is up.")
    return SpecError(text) if "does not exist" in text or "not found" in text else InvalidError(text)


def _write_line(line: str) -> str:
    """Write the line to stderr, and return it."""
    sys.stderr.write(line)
    return line
