"""Checkpoints of a training that can be interrupted at any moment: the newest is restored, and none is ever half.

A checkpoint is one file. SageMaker copies the folder to S3 file by file, at moments of its own: of a checkpoint of two
files S3 can hold the new model beside the old state, each intact. One object is there or not. The file reads:

    leeway-checkpoint 1 TRAINING SAVED_AT      what it belongs to (a digest), UTC
    {...}                                      the state, JSON
    payload, then the SHA-256 of all before it (64 hex digits)

Knows no framework, and travels in the training job's bundle, so: the standard library only. No pickle.
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
"""The first line is shorter: of a foreign file no more is read."""
SEAL_BYTES = 64


@dataclass(frozen=True)
class Checkpoint:
    """What was saved after `step` steps."""

    step: int
    saved_at: str
    state: dict[str, Any]
    payload: bytes


class Checkpoints:
    """The last few checkpoints of one training in a folder that SageMaker synchronises. One process writes there.

    Files that are none, or another training's, are neither taken nor removed.

    Args:
        folder: of the checkpoints; made where it is not there.
        of: what the training is a function of (hyperparameters, digests of the data), as JSON can hold it: only a
            checkpoint of the same is restored.
        keep: how many are kept, at least 1. What is deleted here is deleted in S3, perhaps before the next is copied:
            where they are saved within seconds, more than 2 should be kept.
        every_s: longest work between two checkpoints, seconds; 0 for one after each step.

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
        self._making = _choose_temporary_folder(self.folder) / f".{self.folder.name}.making"
        self._saved_s = self._asked_s = time.monotonic()

    def due(self) -> bool:
        """Whether to save now, so that no more than `every_s` of work can be lost. To be asked after every step.

        A step as long as the last one is allowed for: where one takes longer than `every_s`, a whole step can be lost.
        """
        now = time.monotonic()
        step_s, self._asked_s = now - self._asked_s, now
        return now + step_s - self._saved_s >= self.every_s

    def save(self, step: int, payload: bytes, state: Mapping[str, Any]) -> None:
        """The state after `step` steps is kept, and of older ones the last few. Idempotent.

        Raises:
            OSError: no space, say. The checkpoints of before are untouched.
        """
        target = self.folder / _file_name(step)
        if os.path.lexists(target) and _read_head(target) is None:
            _write_line(f"{target.name} in the checkpoint folder is not ours: step {step} is not kept")
            return
        saved_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        self._write(target, f"leeway-checkpoint 1 {self._of} {saved_at}\n{json.dumps(state)}\n".encode(), payload)
        self._saved_s = self._asked_s = time.monotonic()
        own = [one for one in sorted(_list_steps(self.folder)) if self._owns(self.folder / _file_name(one))]
        kept = [one for one in own if one <= step][-self.keep :]
        for one in own:
            if one not in kept:  # later than `step`, too: passed over when this training was restored, so broken
                (self.folder / _file_name(one)).unlink(missing_ok=True)

    def last(self) -> Checkpoint | None:
        """The newest checkpoint of this training that is whole; None for a cold start. Says on stdout which."""
        found = next(self._whole(), None)
        # The operator reads this line in the job's log, and counts by it the work that was lost.
        told = f"name={_file_name(found.step)} saved_at={found.saved_at}" if found else "none"
        sys.stdout.write(f"checkpoint restored: {told}\n")
        sys.stdout.flush()
        return found

    def _whole(self) -> Iterator[Checkpoint]:
        for step in sorted(_list_steps(self.folder), reverse=True):
            try:
                yield self._read(step)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                _write_line(f"checkpoint {_file_name(step)} {reason}; trying the one before")

    def _write(self, target: Path, head: bytes, payload: bytes) -> None:
        """Whole or not there, also after a power cut. Always made under the same name: nothing piles up."""
        seal = hashlib.sha256(head)
        seal.update(payload)
        try:
            with self._making.open("wb") as file:
                for part in (head, payload, seal.hexdigest().encode()):
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._making, target)
        finally:
            with suppress(OSError):
                self._making.unlink(missing_ok=True)
        entry = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)

    def _read(self, step: int) -> Checkpoint:
        path = self.folder / _file_name(step)
        head = _read_head(path)
        if head is None:
            raise ValueError("is no checkpoint that can be read")
        if head[0] != self._of:
            raise ValueError("is of other hyperparameters or other data")
        content = path.read_bytes()
        whole, seal = memoryview(content)[:-SEAL_BYTES], content[-SEAL_BYTES:]
        if hashlib.sha256(whole).hexdigest().encode() != seal:
            raise ValueError("is truncated or corrupt")
        start = content.index(b"\n") + 1
        end = content.index(b"\n", start) + 1
        return Checkpoint(step, head[1], json.loads(content[start:end]), bytes(whole[end:]))

    def _owns(self, path: Path) -> bool:
        head = _read_head(path)
        return head is not None and head[0] == self._of


def _choose_temporary_folder(folder: Path) -> Path:
    """Where checkpoints of `folder` are made: beside it, since a half one inside would be copied to S3.

    Inside all the same where the folder is a mount of its own, or its parent is read-only.
    """
    for place in (folder.parent, folder):
        try:
            # Tried, not looked up: two mounts of one disk look alike and still refuse. S3 holds no empty folders.
            probe = Path(tempfile.mkdtemp(dir=place, prefix=".probe-"))
            try:
                probe = probe.rename(folder / probe.name)
            finally:
                probe.rmdir()
        except OSError as error:
            if place == folder:
                raise
            _write_line(f"checkpoints are made inside their folder, not beside it: {error.strerror}")
        else:
            return place
    raise AssertionError("the folder itself returns or raises")


def _file_name(step: int) -> str:
    return f"{step:06d}"


def _list_steps(folder: Path) -> Iterator[int]:
    """The steps that the folder has an entry for, in no order."""
    for name in os.listdir(folder):
        if name.isascii() and name.isdigit() and _file_name(int(name)) == name:
            yield int(name)


def _read_head(path: Path) -> tuple[str, str] | None:
    """Whose a checkpoint is, and when it was saved; None where `path` is none, or cannot be read."""
    try:
        if not path.is_file():  # a folder; a pipe, which would never answer
            return None
        with path.open("rb") as file:
            found = HEAD.fullmatch(file.readline(HEAD_BYTES))
    except OSError:
        return None
    return (found[1].decode(), found[2].decode(errors="replace")) if found else None


def _write_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")
