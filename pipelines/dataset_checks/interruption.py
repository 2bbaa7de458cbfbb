"""Interrupt a training, let it resume, and compare its model with that of a training without an interruption."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.code_files import CODE_FOLDER
from pipelines.dataset import Dataset
from pipelines.errors import DataError, TrainingError
from pipelines.features import building
from pipelines.lake import DATE_COLUMN
from pipelines.system.files import sha256

STOPPED_EXIT_CODE = 128 + signal.SIGTERM
"""Exit code of a training script that was stopped by SIGTERM."""
NOTICE_S = 120
"""Seconds from SIGTERM until SageMaker kills a training on a spot instance."""
HYPERPARAMETERS = {
    **{"num_round": 300, "early_stopping_rounds": 300, "eta": 0.01, "max_depth": 3, "nthread": 1},
    "verbose_eval": 1,
}
"""Hyperparameters for the default script, with which the training lasts long enough to be interrupted."""
LINES_BEFORE_INTERRUPTION = 5
"""Number of lines of output that are read first. SIGTERM is sent after the next line."""


def find_problem(dataset: Dataset, rows: pa.Table, folder: Path) -> str:
    """Compare the model of a training with that of an interrupted one; return the problem in one line, empty if none.

    Raises:
        DataError: all rows are of the same day, or the labels cannot be computed. A retry cannot help.
        TrainingError: the script failed in the training without an interruption. A retry cannot help.
    """
    _write_channels(dataset, rows, folder / "features")
    if code := _train(dataset, folder, "whole"):
        raise TrainingError(f"the training of {dataset.name} ended with exit code {code}.")
    code = _train(dataset, folder, "interrupted", is_interrupted=True)
    if code != STOPPED_EXIT_CODE:
        return _describe_end(code)
    if code := _train(dataset, folder, "interrupted"):
        return f"the script does not resume: it ended with exit code {code}"
    digests = {sha256(folder / name / "model") for name in ("whole", "interrupted")}
    return "" if len(digests) == 1 else "the model of the interrupted training differs"


def _describe_end(code: int) -> str:
    """Say what is wrong with the end of the interrupted script, which is not `STOPPED_EXIT_CODE`."""
    if code == 0:
        return (
            f"the script ended with exit code 0, not {STOPPED_EXIT_CODE}: it hides that SIGTERM stopped it, or it "
            f"ended before SIGTERM, which is sent after {LINES_BEFORE_INTERRUPTION + 1} lines of output. Print a line "
            f"for each round or epoch, and train on more rows if the script is too fast"
        )
    if code == -signal.SIGKILL:
        return f"the script did not end within {NOTICE_S} s of SIGTERM"
    return f"after SIGTERM, the script ended with exit code {code}, not {STOPPED_EXIT_CODE}"


def _write_channels(dataset: Dataset, rows: pa.Table, folder: Path) -> None:
    """Write the features of the last fifth of the days as `validation`, and those of all other days as `train`."""
    days = sorted(set(rows[DATE_COLUMN].to_pylist()))
    if len(days) < 2:
        raise DataError(f"the rows of {dataset.name} are of one day, but a training needs rows of two.")
    first_validation_day = pa.scalar(days[-max(1, len(days) // 5)], pa.date32())
    schema = building.build_feature_schema(dataset, rows.schema)
    for name, compare in (("train", pc.less), ("validation", pc.greater_equal)):
        features = building.build_labelled_features(
            dataset, ibis.memtable(rows.filter(compare(rows[DATE_COLUMN], first_validation_day)))
        )
        building.write_features(features.to_pyarrow().to_batches(), schema, folder / name)


def _train(dataset: Dataset, folder: Path, run_name: str, *, is_interrupted: bool = False) -> int:
    """Run the training script; return its exit code. Send SIGTERM after some lines of output if `is_interrupted`."""
    path = dataset.find_file("training.py")
    hyperparameters = HYPERPARAMETERS if path.parent.name == "defaults" else {}
    arguments = [part for name, value in hyperparameters.items() for part in (f"--{name}", str(value))]
    run_folder = folder / run_name
    folders = {"MODEL_DIR": "model", "OUTPUT_DATA_DIR": "output/data", "CHECKPOINT_DIR": "checkpoints"}
    for name in folders.values():
        (run_folder / name).mkdir(parents=True, exist_ok=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"},
        **{f"SM_{name}": str(run_folder / value) for name, value in folders.items()},
        **{f"SM_CHANNEL_{name.upper()}": str(folder / "features" / name) for name in ("train", "validation")},
        "SAGEMAKER_BASE_DIR": str(run_folder),
        "PYTHONPATH": str(CODE_FOLDER),
    }
    command = [sys.executable, "-u", str(path), *arguments]
    # The small pipe holds back a fast script until its lines are read here, so that it does not end before SIGTERM.
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pipesize=mmap.PAGESIZE
    )
    with child:
        kill_timer = threading.Timer(NOTICE_S, child.kill)
        for line_number, _ in enumerate(child.stdout or ()):
            if is_interrupted and line_number == LINES_BEFORE_INTERRUPTION:
                child.terminate()
                kill_timer.start()
        child.wait()
        kill_timer.cancel()
    return child.returncode
