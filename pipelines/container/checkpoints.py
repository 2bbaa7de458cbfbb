"""Save and restore the checkpoints of a training that can be interrupted at any moment.

A checkpoint is one file, because SageMaker copies the folder to S3 file by file, at any time. With two files, S3 could
have the new model and the old state. The content of the file:

    leeway-checkpoint 1 TRAINING SAVED_AT      digest of the identity of the training, time of the save in UTC
    {...}                                      the state, JSON
    payload, then the SHA-256 of everything before it (64 hex digits)

This module is independent of the ML framework. It is part of the training job's bundle, so it imports the standard
library only.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER = re.compile(rb"leeway-checkpoint 1 ([0-9a-f]{16}) (\S{1,40})\n")
MAX_HEADER_BYTES = 100
"""Largest length of the first line. Only this part of a file is read to decide whether it is a checkpoint."""
DIGEST_BYTES = 64
"""Length of the SHA-256 at the end of the file, in hex digits."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training after `step` steps."""

    step: int
    saved_at: str
    """Time of the save, ISO 8601 in UTC."""
    state: dict[str, Any]
    """Any JSON values, such as the metrics so far."""
    payload: bytes
    """Any bytes, such as the model."""


class SaveTimer:
    """Decide when to save, so that at most `every_s` seconds of work can be lost.

    Args:
        every_s: longest work between two checkpoints, seconds; 0 for a checkpoint after each step.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._saved_at_s = self._checked_at_s = time.monotonic()

    def restart(self) -> None:
        """Count the time from now on, because a checkpoint was just saved."""
        self._saved_at_s = self._checked_at_s = time.monotonic()

    def is_due(self) -> bool:
        """Return whether to save now. Call it after every step.

        The next step is assumed to take as long as the last one.
        """
        now = time.monotonic()
        step_s, self._checked_at_s = now - self._checked_at_s, now
        return now + step_s - self._saved_at_s >= self._every_s


class Checkpoints:
    """The last few checkpoints of one training, in a folder that SageMaker copies to S3. Only one process may write.

    Other files are neither restored nor changed. A checkpoint of another training is not restored, and is replaced only
    by a checkpoint of the same step.

    Args:
        folder: folder of the checkpoints; created if it does not exist.
        identity: everything that determines the training (hyperparameters, digests of the data), as JSON values. Only
            a checkpoint of a training with equal values is restored.
        max_checkpoints: number of checkpoints to keep, at least 1. SageMaker deletes in S3 what is deleted here,
            perhaps before it has copied the next checkpoint. So keep more than 2 if checkpoints are seconds apart.
        every_s: longest work between two checkpoints, seconds; 0 for a checkpoint after each step.

    Raises:
        ValueError: `max_checkpoints` or `every_s` is out of range.
        OSError: the folder cannot be written.
    """

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], max_checkpoints: int = 2, every_s: float = 30.0
    ) -> None:
        if max_checkpoints < 1 or not every_s >= 0:
            values = f"{max_checkpoints} and {every_s}"
            raise ValueError(f"max_checkpoints is at least 1 and every_s at least 0, not {values}")
        self.folder, self.max_checkpoints = folder.absolute(), max_checkpoints
        self._digest = compute_digest(identity)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._temporary = choose_temporary_folder(self.folder) / f".{self.folder.name}.making"
        self._timer = SaveTimer(every_s)

    def is_due(self) -> bool:
        """Return whether to save now, so that at most `every_s` seconds of work can be lost. Call it after every step.

        The next step is assumed to take as long as the last one. A step that takes longer than `every_s` can be lost.
        """
        return self._timer.is_due()

    def save(self, step: int, payload: bytes, state: Mapping[str, Any]) -> None:
        """Save the state after `step` steps, and remove all but the last `max_checkpoints` of the training. Idempotent.

        If another file has the name of the checkpoint, nothing is saved; a line on stderr says so.

        Raises:
            OSError: the file cannot be written; for example, the disk is full. Older checkpoints stay as they are.
        """
        target = self.folder / _format_file_name(step)
        if os.path.lexists(target) and _read_header(target) is None:
            _write_line(f"{target.name} in the checkpoint folder is not a checkpoint: step {step} is not saved")
            return
        saved_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        self._write(target, f"leeway-checkpoint 1 {self._digest} {saved_at}\n{json.dumps(state)}\n".encode(), payload)
        self._timer.restart()
        own_steps = [
            own_step
            for own_step in sorted(_list_steps(self.folder))
            if self._is_own(self.folder / _format_file_name(own_step))
        ]
        last_steps = [own_step for own_step in own_steps if own_step <= step][-self.max_checkpoints :]
        for own_step in own_steps:
            if own_step not in last_steps:  # files of steps after `step` are damaged: `restore` skipped them
                (self.folder / _format_file_name(own_step)).unlink(missing_ok=True)

    def restore(self) -> Checkpoint | None:
        """Return the complete checkpoint of this training with the most steps, or None. Print its name, or `none`."""
        checkpoint = next(self._iterate_complete_checkpoints(), None)
        # The operator reads this line in the job's log, to compute how much work was lost.
        name = f"name={_format_file_name(checkpoint.step)} saved_at={checkpoint.saved_at}" if checkpoint else "none"
        sys.stdout.write(f"checkpoint restored: {name}\n")
        sys.stdout.flush()
        return checkpoint

    def _iterate_complete_checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the complete checkpoints of this training, the one with the most steps first."""
        for step in sorted(_list_steps(self.folder), reverse=True):
            try:
                yield self._read(step)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                _write_line(f"checkpoint {_format_file_name(step)} {reason}; trying the one before")

    def _write(self, target: Path, header: bytes, payload: bytes) -> None:
        """Write a file that is complete or absent, even after a power failure.

        The temporary file always has the same name, so that a job that is killed leaves at most one such file.
        """
        digest = hashlib.sha256(header)
        digest.update(payload)
        try:
            with self._temporary.open("wb") as file:
                for part in (header, payload, digest.hexdigest().encode()):
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._temporary, target)
        finally:
            with suppress(OSError):
                self._temporary.unlink(missing_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _read(self, step: int) -> Checkpoint:
        """Read the checkpoint of a step. The texts of its errors continue the line "checkpoint NAME"."""
        path = self.folder / _format_file_name(step)
        header = _read_header(path)
        if header is None:
            raise ValueError("cannot be read as a checkpoint")
        if header[0] != self._digest:
            raise ValueError("belongs to other hyperparameters or other data")
        content = path.read_bytes()
        body, digest = memoryview(content)[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise ValueError("is truncated or corrupt")
        state_start = content.index(b"\n") + 1
        state_end = content.index(b"\n", state_start) + 1
        return Checkpoint(step, header[1], json.loads(content[state_start:state_end]), bytes(body[state_end:]))

    def _is_own(self, path: Path) -> bool:
        header = _read_header(path)
        return header is not None and header[0] == self._digest


def compute_digest(identity: Mapping[str, Any]) -> str:
    """Return the digest of everything that determines a training, 16 hex digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def choose_temporary_folder(folder: Path) -> Path:
    """Return the folder for incomplete checkpoints: the parent of `folder`, so that they are not copied to S3.

    If `folder` is a separate mount, or its parent is read-only, `folder` itself is returned.

    Raises:
        OSError: `folder` cannot be written.
    """
    for location in (folder.parent, folder):
        try:
            # Only a move shows whether both are on one mount: two mounts of one disk have the same device number. The
            # moved folder is empty, because SageMaker never copies an empty folder to S3.
            test_folder = Path(tempfile.mkdtemp(dir=location, prefix=".probe-"))
            try:
                test_folder = test_folder.rename(folder / test_folder.name)
            finally:
                test_folder.rmdir()
        except OSError as error:
            if location == folder:
                raise
            _write_line(f"incomplete checkpoints are written inside the folder, not beside it: {error.strerror}")
        else:
            return location
    raise AssertionError("the loop returns or raises for the folder itself")


def _format_file_name(step: int) -> str:
    return f"{step:06d}"


def _list_steps(folder: Path) -> Iterator[int]:
    """Yield the steps for which the folder has a file, unsorted."""
    for name in os.listdir(folder):
        if name.isascii() and name.isdigit() and _format_file_name(int(name)) == name:
            yield int(name)


def _read_header(path: Path) -> tuple[str, str] | None:
    """Return the training's digest and the time of the save; None if `path` is not a readable checkpoint."""
    try:
        if not path.is_file():  # a folder, or a pipe, which would block
            return None
        with path.open("rb") as file:
            match = HEADER.fullmatch(file.readline(MAX_HEADER_BYTES))
    except OSError:
        return None
    return (match[1].decode(), match[2].decode(errors="replace")) if match else None


def _write_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")
