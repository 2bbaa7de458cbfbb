"""Save and restore the state of a training on several processes: each writes its own shards of the tensors.

A checkpoint is a folder in the checkpoint folder of the job:

    000120-5f3a9c01/shard-00001-....safetensors    what the first process saves; one file or none a process
    000120-5f3a9c01/state.json                     names, sizes and SHA-256 of all files, and the state

SageMaker copies the files of each host to S3, at any time and one by one, and gives all of them to each host of the
next job. So a checkpoint counts only if each host has all of its files. A folder is written once: the random part of
its name keeps the files of two attempts apart. `torch.distributed.checkpoint` divides the tensors anew if the number of
processes changes. The files are safetensors, so nothing in them is run when they are read.

The module is part of a training job's source bundle, so it imports only torch, safetensors, files of the bundle and the
standard library.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import secrets
import shutil
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

from pipelines.container.checkpoints import compute_digest
from pipelines.container.torch.processes import Processes

STATE_FILE = "state.json"
NAME = re.compile(r"(\d{6,})-[0-9a-f]{8}")
FILE = re.compile(r"shard-[\w.-]+\.safetensors")
MAX_STATE_BYTES = 64 << 20
"""Largest size of state.json that is read."""
CHUNK = 1 << 20


@dataclass(frozen=True)
class Description:
    """The content of state.json."""

    step: int
    saved_at: str
    """Time of the save, ISO 8601 in UTC."""
    training: str
    """Digest of the identity of the training."""
    state: dict[str, Any]
    """JSON values of the training, such as its position in the data."""
    shapes: dict[str, list[int]]
    """Shape of each tensor, whole."""
    files: dict[str, tuple[int, str]]
    """File to its size and its SHA-256."""


class ShapeError(Exception):
    """The newest checkpoint has other tensors than the training. A retry cannot help."""


class ShardedCheckpoints:
    """The last few checkpoints of one training on several processes. All processes call the same methods.

    Args:
        folder: folder of the checkpoints, of this host; created if it does not exist.
        identity: everything that determines the training, as JSON values. Only a checkpoint of a training with equal
            values is restored. The number of processes does not belong to it.
        processes: the processes of the training.
        keep: number of checkpoints to keep, at least 1.
        every_s: longest work between two checkpoints, seconds.
    """

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], processes: Processes, keep: int = 2, every_s: float = 30.0
    ) -> None:
        self.folder, self.processes, self.keep, self.every_s = folder, processes, keep, every_s
        self._training = compute_digest(identity)
        self._damaged_names: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self._saved_at_s = time.monotonic()

    def is_due(self) -> bool:
        """Return whether this process would save now. The processes have to agree on it before they save."""
        return time.monotonic() - self._saved_at_s >= self.every_s

    def save(self, step: int, tensors: Mapping[str, torch.Tensor], state: Mapping[str, Any]) -> None:
        """Save the state after `step` steps, and remove all but the last few checkpoints.

        Args:
            step: number of steps.
            tensors: the tensors of this process, such as those of `get_state_dict`: whole ones, or shards (DTensor).
            state: JSON values; those of the first process count.

        Raises:
            OSError: a file cannot be written; for example, the disk is full. Older checkpoints stay as they are.
        """
        name = self.processes.share_text(f"{step:06d}-{secrets.token_hex(4)}")
        target = self.folder / name
        target.mkdir(parents=True, exist_ok=True)
        writer = dcp.HuggingFaceStorageWriter(str(target), save_distributed=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save(dict(tensors), storage_writer=writer)
        own_files = target.glob(f"shard-{self.processes.rank + 1:05d}-*")
        texts = self.processes.gather_texts(json.dumps({path.name: _measure(path) for path in own_files}))
        saved_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        shapes = {key: list(tensor.shape) for key, tensor in tensors.items()}
        files = {key: value for text in texts for key, value in json.loads(text).items()}
        description = Description(step, saved_at, self._training, dict(state), shapes, files)
        text = self.processes.share_text(json.dumps(vars(description)))
        if self.processes.local_rank == 0:  # each host has it, because each decides alone which checkpoints it keeps
            _write_state(target, text, self.processes.rank)
        self._saved_at_s = time.monotonic()
        self._remove_older(name)

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> Description | None:
        """Fill the tensors from the newest checkpoint that is complete on all hosts; None if there is none.

        Prints which one. Checkpoints of other trainings, and incomplete or damaged ones, are passed over.

        Raises:
            ShapeError: the checkpoint has other tensors, because the code of the training changed. A retry cannot help.
        """
        names = sorted(_list_names(self.folder), key=_get_order, reverse=True)
        for name in json.loads(self.processes.share_text(json.dumps(names))):
            description = self._find_complete(name)
            if description is None:
                continue
            _check_shapes(name, description, tensors)
            dcp.load(dict(tensors), storage_reader=dcp.HuggingFaceStorageReader(str(self.folder / name)))
            self._print(f"checkpoint restored: name={description.step:06d} saved_at={description.saved_at}")
            self._saved_at_s = time.monotonic()
            return description
        self._print("checkpoint restored: none")
        return None

    def _find_complete(self, name: str) -> Description | None:
        """Return the description of a checkpoint; None if it is of another training, or not complete on each host."""
        description, problem = _read_state(self.folder / name), "has no state.json on a host"
        if description and description.training != self._training:
            problem = "belongs to other hyperparameters or other data"
        # The processes of a host divide its files among themselves.
        own = slice(self.processes.local_rank, None, self.processes.local_count)
        is_bad = description is None or description.training != self._training
        is_damaged = description is not None and not all(
            _is_intact(self.folder / name / file, size, digest)
            for file, (size, digest) in sorted(description.files.items())[own]
        )
        any_bad, any_damaged = self.processes.find_largest([is_bad, is_damaged])
        if not any_bad and not any_damaged:
            return description
        reason = problem if any_bad else "is incomplete or damaged on a host"
        if description is None or not any_bad:
            self._damaged_names.add(name)
        if self.processes.is_first:
            sys.stderr.write(f"checkpoint {name} {reason}; trying the one before\n")
        return None

    def _remove_older(self, newest: str) -> None:
        """Remove from this host all but the last few complete checkpoints of this training, and what is incomplete.

        Checkpoints of other trainings stay.
        """
        if self.processes.local_rank != 0:
            return
        names = [name for name in _list_names(self.folder) if not self._is_of_other_training(name)]
        complete = [
            name
            for name in sorted(names, key=_get_order)
            if name not in self._damaged_names and (self.folder / name / STATE_FILE).exists()
        ]
        older = [name for name in complete if _get_order(name) < _get_order(newest)]
        kept_names = {newest, *(older[-(self.keep - 1) :] if self.keep > 1 else [])}
        for name in set(names) - kept_names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _is_of_other_training(self, name: str) -> bool:
        description = _read_state(self.folder / name)
        return description is not None and description.training != self._training

    def _print(self, line: str) -> None:
        if self.processes.is_first:  # the operator reads this line in the log of the first host
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def _list_names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if NAME.fullmatch(path.name) and path.is_dir()]


def _get_order(name: str) -> tuple[int, str]:
    """Return what orders checkpoints: the step, then the name."""
    return int(name.partition("-")[0]), name


def _write_state(folder: Path, text: str, rank: int) -> None:
    """Write state.json whole or not at all."""
    temporary = folder / f".{rank}.{STATE_FILE}"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(folder / STATE_FILE)


def _read_state(folder: Path) -> Description | None:
    """Return the content of state.json; None if the file is missing or damaged."""
    path = folder / STATE_FILE
    with suppress(OSError, ValueError, TypeError):
        if path.is_file() and path.stat().st_size <= MAX_STATE_BYTES:
            description = Description(**json.loads(path.read_text(encoding="utf-8")))
            return description if all(map(FILE.fullmatch, description.files)) else None
    return None


def _measure(path: Path) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file, as it is on the disk."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def _is_intact(path: Path, size: int, digest: str) -> bool:
    with suppress(OSError):
        return path.stat().st_size == size and _measure(path) == (size, digest)
    return False


def _check_shapes(name: str, description: Description, tensors: Mapping[str, torch.Tensor]) -> None:
    shapes = {key: list(tensor.shape) for key, tensor in tensors.items()}
    for key in sorted(shapes.keys() | description.shapes.keys()):
        if shapes.get(key) != description.shapes.get(key):
            before, now = description.shapes.get(key, "none"), shapes.get(key, "none")
            raise ShapeError(
                f"the checkpoint {name} has another network: {key} has the shape {before}, not {now}. "
                "Use another checkpoint folder."
            )
