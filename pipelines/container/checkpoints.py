"""Checkpoints of a training that can be interrupted at any moment: each is complete, and the newest is restored.

A checkpoint is one file, because SageMaker copies the folder to S3 file by file, whenever it likes: with two files, S3
could have the new model beside the old state. The content of the file:

    leeway-checkpoint 1 TRAINING SAVED_AT      digest of the training that it belongs to, time in UTC
    {...}                                      the state, JSON
    payload, then the SHA-256 of all before it (64 hex digits)

Independent of the ML framework. Travels in the training job's bundle, so it imports the standard library only.
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

HEAD = re.compile(rb"leeway-checkpoint 1 ([0-9a-f]{16}) (\S{1,40})\n")
HEAD_BYTES = 100
"""Longest first line; no more is read of a file to find out whether it is a checkpoint."""
SEAL_BYTES = 64


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training after `step` steps."""

    step: int
    saved_at: str
    state: dict[str, Any]
    payload: bytes


class Checkpoints:
    """The last few checkpoints of one training, in a folder that SageMaker copies to S3. For one writing process.

    Other files, and checkpoints of other trainings, are neither restored nor removed.

    Args:
        folder: of the checkpoints; created where it does not exist.
        of: everything that determines the training (hyperparameters, digests of the data), as JSON values: only a
            checkpoint of a training with equal values is restored.
        keep: number of checkpoints to keep, at least 1. SageMaker deletes in S3 what is deleted here, perhaps before
            it has copied the next one: keep more than 2 where checkpoints are seconds apart.
        every_s: longest work between two checkpoints, seconds; 0 for a checkpoint after each step.

    Raises:
        ValueError: `keep` or `every_s` is out of range.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, of: Mapping[str, Any], keep: int = 2, every_s: float = 30.0) -> None:
        if keep < 1 or not every_s >= 0:
            raise ValueError(f"keep is at least 1 and every_s at least 0, not {keep} and {every_s}")
        self.folder, self.keep, self.every_s = folder.absolute(), keep, every_s
        self._of = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:16]
        self.folder.mkdir(parents=True, exist_ok=True)
        self._temporary = _choose_temporary_folder(self.folder) / f".{self.folder.name}.making"
        self._saved_at_s = self._checked_at_s = time.monotonic()

    def is_due(self) -> bool:
        """Return whether to save now, so that at most `every_s` of work can be lost. Call it after every step.

        The next step is assumed to take as long as the last one. Where a step takes longer than `every_s`, that step
        can be lost.
        """
        now = time.monotonic()
        step_s, self._checked_at_s = now - self._checked_at_s, now
        return now + step_s - self._saved_at_s >= self.every_s

    def save(self, step: int, payload: bytes, state: Mapping[str, Any]) -> None:
        """Save the state after `step` steps, and remove all but the last few checkpoints. Idempotent.

        Raises:
            OSError: for example, the disk is full. Older checkpoints are untouched.
        """
        target = self.folder / _format_file_name(step)
        if os.path.lexists(target) and _read_head(target) is None:
            _write_line(f"{target.name} in the checkpoint folder is not a checkpoint: step {step} is not saved")
            return
        saved_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        self._write(target, f"leeway-checkpoint 1 {self._of} {saved_at}\n{json.dumps(state)}\n".encode(), payload)
        self._saved_at_s = self._checked_at_s = time.monotonic()
        own = [
            number for number in sorted(_list_steps(self.folder)) if self._owns(self.folder / _format_file_name(number))
        ]
        kept = [number for number in own if number <= step][-self.keep :]
        for number in own:
            if number not in kept:  # one later than `step` is broken: it was skipped when this training was restored
                (self.folder / _format_file_name(number)).unlink(missing_ok=True)

    def restore(self) -> Checkpoint | None:
        """Return the newest complete checkpoint of this training; None for a cold start. Prints which one."""
        checkpoint = next(self._read_complete(), None)
        # The operator reads this line in the job's log, to compute how much work was lost.
        name = f"name={_format_file_name(checkpoint.step)} saved_at={checkpoint.saved_at}" if checkpoint else "none"
        sys.stdout.write(f"checkpoint restored: {name}\n")
        sys.stdout.flush()
        return checkpoint

    def _read_complete(self) -> Iterator[Checkpoint]:
        for step in sorted(_list_steps(self.folder), reverse=True):
            try:
                yield self._read(step)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                _write_line(f"checkpoint {_format_file_name(step)} {reason}; trying the one before")

    def _write(self, target: Path, head: bytes, payload: bytes) -> None:
        """Write a file that is complete or absent, even after a power cut. Its temporary name is always the same."""
        seal = hashlib.sha256(head)
        seal.update(payload)
        try:
            with self._temporary.open("wb") as file:
                for part in (head, payload, seal.hexdigest().encode()):
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._temporary, target)
        finally:
            with suppress(OSError):
                self._temporary.unlink(missing_ok=True)
        entry = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)

    def _read(self, step: int) -> Checkpoint:
        path = self.folder / _format_file_name(step)
        head = _read_head(path)
        if head is None:
            raise ValueError("cannot be read as a checkpoint")
        if head[0] != self._of:
            raise ValueError("belongs to other hyperparameters or other data")
        content = path.read_bytes()
        body, seal = memoryview(content)[:-SEAL_BYTES], content[-SEAL_BYTES:]
        if hashlib.sha256(body).hexdigest().encode() != seal:
            raise ValueError("is truncated or corrupt")
        start = content.index(b"\n") + 1
        end = content.index(b"\n", start) + 1
        return Checkpoint(step, head[1], json.loads(content[start:end]), bytes(body[end:]))

    def _owns(self, path: Path) -> bool:
        head = _read_head(path)
        return head is not None and head[0] == self._of


def _choose_temporary_folder(folder: Path) -> Path:
    """Return the folder for incomplete checkpoints: the parent of `folder`, so that they are not copied to S3.

    `folder` itself is returned where it is a mount of its own, or its parent is read-only.
    """
    for place in (folder.parent, folder):
        try:
            # A move is tried, because two mounts of one disk look the same. S3 stores no empty folders.
            probe = Path(tempfile.mkdtemp(dir=place, prefix=".probe-"))
            try:
                probe = probe.rename(folder / probe.name)
            finally:
                probe.rmdir()
        except OSError as error:
            if place == folder:
                raise
            _write_line(f"incomplete checkpoints are written inside the folder, not beside it: {error.strerror}")
        else:
            return place
    raise AssertionError("the folder itself returns or raises")


def _format_file_name(step: int) -> str:
    return f"{step:06d}"


def _list_steps(folder: Path) -> Iterator[int]:
    """Yield the steps that the folder has a file for, unsorted."""
    for name in os.listdir(folder):
        if name.isascii() and name.isdigit() and _format_file_name(int(name)) == name:
            yield int(name)


def _read_head(path: Path) -> tuple[str, str] | None:
    """Return the training of a checkpoint, and when it was saved; None where `path` is not a readable checkpoint."""
    try:
        if not path.is_file():  # a folder, or a pipe, which would block
            return None
        with path.open("rb") as file:
            match = HEAD.fullmatch(file.readline(HEAD_BYTES))
    except OSError:
        return None
    return (match[1].decode(), match[2].decode(errors="replace")) if match else None


def _write_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")
