"""Find the folders of a fine-tuning job, and report why the job failed.

This module is in the source bundle of the training job, so it imports the standard library only.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class JobFolders:
    """The folders of a training job.

    Attributes:
        base_model: the channel `model`.
        train: the channel `train`.
        validation: the channel `validation`; the folder exists only if the job has this channel.
        model: the folder that SageMaker stores as model.tar.gz.
        output: the folder that SageMaker stores as output.tar.gz.
        checkpoints: the folder that SageMaker copies to S3 during the job.
    """

    base_model: Path
    train: Path
    validation: Path
    model: Path
    output: Path
    checkpoints: Path


def find_folders() -> JobFolders:
    """Return the folders that SageMaker's environment variables name, such as SM_CHANNEL_TRAIN.

    If a variable is not set, its folder is in SageMaker's usual place below SAGEMAKER_BASE_DIR (by default /opt/ml).
    """
    base = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))

    def find(variable: str, default: str) -> Path:
        return Path(os.environ.get(variable) or base / default)

    return JobFolders(
        base_model=find("SM_CHANNEL_MODEL", "input/data/model"),
        train=find("SM_CHANNEL_TRAIN", "input/data/train"),
        validation=find("SM_CHANNEL_VALIDATION", "input/data/validation"),
        model=find("SM_MODEL_DIR", "model"),
        output=find("SM_OUTPUT_DATA_DIR", "output/data"),
        checkpoints=find("SM_CHECKPOINT_DIR", "checkpoints"),
    )


def report_failure(text: str) -> int:
    """Write why the job failed to the log, and to the file that SageMaker shows as FailureReason.

    Returns:
        The exit code of the script.
    """
    folder = find_folders().output.parent
    with suppress(OSError):  # for example, the disk is full
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "failure").write_text(text, encoding="utf-8")
    sys.stderr.write(f"{text}\n")
    return 1
