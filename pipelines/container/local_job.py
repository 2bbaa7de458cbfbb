"""Running a script-mode training script on this machine, in the folder tree that SageMaker gives a training job."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from pipelines import dataset as datasets
from pipelines.container.signals import SignalRelay
from pipelines.errors import DataError, LeewayError, ServiceError, StorageError, TrainingError
from pipelines.settings import settings
from pipelines.system.error_translation import NO_SPACE_TEXTS
from pipelines.system.files import replace_folder, sha256
from pipelines.system.locks import hold_lock
from pipelines.versioning.git import describe_commit

STOPPED = (128 + signal.SIGTERM, 128 + signal.SIGINT)
"""Exit codes of a script that was stopped, and that kept a checkpoint."""
TAIL_LINES = 5
"""Lines of a crashed script that its error quotes."""


def train(
    dataset: str, features: Path, hyperparameters: Mapping[str, int | float | str], model: Path, output: Path
) -> str:
    """The script's model and record are at `model` and `output`; returns the name of the training.

    The name is a function of features, code and hyperparameters, and so is the folder that it works in: the same
    training killed and run again goes on from its checkpoints.
    """
    channels = {name: (features / name).absolute() for name in ("train", "validation")}
    for name, folder in channels.items():
        if not (folder / "data.parquet").exists():
            raise DataError(f"{features / name}/data.parquet is not there.", "The step `preprocess` writes it.")
    script = datasets.load_dataset(dataset).package / "training.py"
    job = _name_job(dataset, [*channels.values(), *_list_code(script)], hyperparameters)
    tree = settings().home / "training" / job
    # The script holds it too: it may outlive this process.
    with hold_lock(tree.with_suffix(".lock"), f"{job} is being trained by another process.") as lock:
        _run_script(script, job, tree, channels, hyperparameters, lock)
        for made, target in (("model", model), ("output/data", output)):
            # Copied: LEEWAY_HOME may be on another file system, where a move that fails leaves half of it.
            with replace_folder(target) as making:
                shutil.copytree(tree / made, making, dirs_exist_ok=True)
        shutil.rmtree(tree, ignore_errors=True)
    return job


def _list_code(script: Path) -> list[Path]:
    """The script and what it imports. Not its whole folder: Python writes bytecode there."""
    return [script, *(script.parents[3] / name for name in (script.parent / "bundle.txt").read_text("utf-8").split())]


def _name_job(dataset: str, made_of: list[Path], hyperparameters: Mapping[str, object]) -> str:
    told = [*(sha256(one) for one in made_of), json.dumps(hyperparameters, sort_keys=True, default=str)]
    return f"local-{dataset}-{hashlib.sha256(' '.join(told).encode()).hexdigest()[:12]}"


def _run_script(
    script: Path, job: str, tree: Path, channels: Mapping[str, Path], hyperparameters: Mapping[str, object], lock: int
) -> None:
    folders = {"SM_MODEL_DIR": "model", "SM_OUTPUT_DATA_DIR": "output/data", "SM_CHECKPOINT_DIR": "checkpoints"}
    (tree / "output" / "failure").unlink(missing_ok=True)
    for folder in folders.values():
        (tree / folder).mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **{name: str(tree / folder) for name, folder in folders.items()},
        **{f"SM_CHANNEL_{name.upper()}": str(folder) for name, folder in channels.items()},
        "SAGEMAKER_BASE_DIR": str(tree),
        "TRAINING_JOB_NAME": job,
        "PYTHONPATH": str(script.parents[3]),
        "LEEWAY_GIT_COMMIT": describe_commit(settings().project),
    }
    arguments = [part for name, value in hyperparameters.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-u", str(script), *arguments]
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
        relay.to(child)
        tail = deque((_write_line(line) for line in child.stdout or ()), TAIL_LINES)
    if child.returncode:
        raise _explain_failure(script.name, child.returncode, tree / "output" / "failure", tail)


def _explain_failure(script: str, code: int, failure: Path, tail: Iterable[str]) -> LeewayError:
    """What the script left in its failure file, else its last lines."""
    told = failure.read_text(encoding="utf-8", errors="replace") if failure.exists() else ""
    said = told or " | ".join(line.strip() for line in tail)  # empty where the disk had no space for it
    if any(text in said for text in NO_SPACE_TEXTS):
        return StorageError(f"{script} found no space on the disk.", "Free some; it goes on from its checkpoint.")
    if code < 0 or code in STOPPED:
        return ServiceError(f"{script} was stopped from outside (exit code {code}).", "Run it again: it goes on.")
    return TrainingError(f"{script} ended with exit code {code}: {said}")


def _write_line(line: str) -> str:
    sys.stderr.write(line)
    return line
