"""Run a script-mode training script on this machine, with folders and variables as SageMaker gives a training job."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.code_files import CODE_FOLDER
from pipelines.container.signals import SignalRelay
from pipelines.errors import DataError, LeewayError, ServiceError, StorageError, TrainingError
from pipelines.settings import settings
from pipelines.system.error_translation import NO_SPACE_TEXTS
from pipelines.system.files import replace_folder, sha256
from pipelines.system.locks import hold_lock

STOPPED_EXIT_CODES = (128 + signal.SIGTERM, 128 + signal.SIGINT)
"""Exit codes of a script that saved a checkpoint and ended because of SIGTERM or SIGINT."""
TAIL_LINES = 5
"""Number of last output lines of a crashed script that the error quotes."""
FOLDERS = {"SM_MODEL_DIR": "model", "SM_OUTPUT_DATA_DIR": "output/data", "SM_CHECKPOINT_DIR": "checkpoints"}
"""Maps environment variables to folders, relative to the job's working folder. SM_CHECKPOINT_DIR is an addition of
Leeway and drydock; the others are SageMaker's."""
Hyperparameters = Mapping[str, int | float | str | list[float]]


@dataclass(frozen=True)
class Script:
    """A dataset's training script, and the other files that it needs."""

    dataset: str
    path: Path
    bundle: Mapping[str, Path]
    """Maps each import path, such as pipelines/errors.py, to the file on this machine."""
    git_commit: str

    def list_code(self) -> list[Path]:
        """Return the paths of the script and of the files of its bundle.

        The list has files, not folders: Python adds bytecode to folders, which would change the name of the training.
        """
        return [self.path, *self.bundle.values()]


def train(script: Script, features: Path, hyperparameters: Hyperparameters, model: Path, output: Path) -> str:
    """Run the training script; write its model to `model`, and its metrics, parameters and environment to `output`.

    Features, code and hyperparameters determine the name of the training and its working folder. So a training that was
    killed resumes from its checkpoints when it is started again.

    Args:
        script: the script to run.
        features: folder with train/ and validation/.
        hyperparameters: name to value; passed to the script as --NAME VALUE.
        model: folder to write the model to; what was there is replaced.
        output: folder to write the record to; what was there is replaced.

    Returns:
        The name of the training.

    Raises:
        DataError: the features do not exist. A retry cannot help.
        ConflictError: another process runs the same training. A retry can help.
        StorageError, ServiceError: the disk is full, or the script was stopped. A retry can help, and resumes.
        TrainingError: the script crashed. A retry cannot help.
    """
    channels = {name: (features / name).absolute() for name in ("train", "validation")}
    for name, folder in channels.items():
        if not (folder / "data.parquet").exists():
            raise DataError(f"{features / name}/data.parquet does not exist.", "The step `preprocess` writes it.")
    job = _name_job(script, list(channels.values()), hyperparameters)
    job_folder = settings().home / "training" / job
    # The script inherits the lock, because it may run longer than this process.
    with hold_lock(job_folder.with_suffix(".lock"), f"another process runs the training {job}.") as lock:
        command = build_command(script, hyperparameters)
        environment = build_environment(script, job, job_folder, channels)
        _run_script(command, environment, job_folder, lock)
        for name, target in (("model", model), ("output/data", output)):
            # The files are copied, not moved: LEEWAY_HOME may be on another file system, and a failed move would leave
            # an incomplete folder.
            with replace_folder(target) as folder:
                shutil.copytree(job_folder / name, folder, dirs_exist_ok=True)
        shutil.rmtree(job_folder, ignore_errors=True)
    return job


def _name_job(script: Script, channels: Sequence[Path], hyperparameters: Hyperparameters) -> str:
    digests = [sha256(path) for path in (*channels, *script.list_code())]
    inputs = " ".join([*digests, json.dumps(hyperparameters, sort_keys=True, default=str)])
    return f"local-{script.dataset}-{hashlib.sha256(inputs.encode()).hexdigest()[:12]}"


def build_command(script: Script, hyperparameters: Hyperparameters) -> list[str]:
    """Return the command that runs the script, with each hyperparameter as --NAME VALUE."""
    arguments = [part for name, value in hyperparameters.items() for part in (f"--{name}", str(value))]
    return [sys.executable, "-u", str(script.path), *arguments]


def build_environment(script: Script, job: str, job_folder: Path, channels: Mapping[str, Path]) -> dict[str, str]:
    """Return all environment variables of this process, and those that the script needs, such as SM_MODEL_DIR."""
    return {
        **os.environ,
        **{variable: str(job_folder / folder) for variable, folder in FOLDERS.items()},
        **{f"SM_CHANNEL_{name.upper()}": str(folder) for name, folder in channels.items()},
        "SAGEMAKER_BASE_DIR": str(job_folder),
        "TRAINING_JOB_NAME": job,
        "PYTHONPATH": str(CODE_FOLDER),
        "LEEWAY_GIT_COMMIT": script.git_commit,
    }


def _run_script(command: Sequence[str], environment: Mapping[str, str], job_folder: Path, lock: int) -> None:
    """Run the script, which inherits the file descriptor `lock`; raise an error if it fails."""
    (job_folder / "output" / "failure").unlink(missing_ok=True)
    for folder in FOLDERS.values():
        (job_folder / folder).mkdir(parents=True, exist_ok=True)
    with (
        SignalRelay() as relay,
        subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=[lock],
        ) as child,
    ):
        relay.attach(child)
        tail = deque((_write_line(line) for line in child.stdout or ()), TAIL_LINES)
    if child.returncode:
        raise explain_failure(Path(command[2]).name, child.returncode, job_folder / "output" / "failure", tail)


def explain_failure(script: str, exit_code: int, failure: Path, tail: Iterable[str]) -> LeewayError:
    """Return the error for an exit code. A TrainingError quotes the script's failure file, or else its last lines."""
    text = failure.read_text(encoding="utf-8", errors="replace") if failure.exists() else ""
    text = text or " | ".join(line.strip() for line in tail)  # the file is empty if the disk was full
    if any(no_space in text for no_space in NO_SPACE_TEXTS):
        return StorageError(
            f"{script} found no space on the disk.", "Free some space and run it again: it resumes from its checkpoint."
        )
    if exit_code < 0 or exit_code in STOPPED_EXIT_CODES:
        return ServiceError(f"{script} was stopped by a signal (exit code {exit_code}).", "Run it again: it resumes.")
    return TrainingError(f"{script} ended with exit code {exit_code}: {text}")


def _write_line(line: str) -> str:
    sys.stderr.write(line)
    return line
