"""The log of one host's run: its lines are moved from the job's log file to CloudWatch Logs.

The time of a line is close to the time at which the job printed it: the file's size is read ten times a second, and the
file system records when the file was last written. The position in the file is stored together with the lines, so the
next server resumes there, and each line is stored once.
"""

import collections
import contextlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moto.logs.models import logs_backends

from drydock.host.log_source import LogSource
from drydock.store import Store
from drydock.transfer.line_blocks import BLOCK_MAX_BYTES, LineBlock, build_blocks, find_piece_end, read_lines
from drydock.transfer.stable_read import open_regular_file

SCHEMA = """
CREATE TABLE IF NOT EXISTS log_files (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, account TEXT NOT NULL, region TEXT NOT NULL, job TEXT NOT NULL,
    host TEXT NOT NULL, stream TEXT NOT NULL, position INTEGER NOT NULL DEFAULT 0, closing_lines TEXT
);
"""
# Largest part of a log file that is read at once.
READ_BYTES = 1 << 20
# If there are more samples, a new sample replaces the last one.
MAX_SAMPLES = 10_000


@dataclass
class LogForwarder:
    """Moves the lines of one log file to a log stream. Safe for several threads.

    Attributes:
        number: Id of the forwarder's row in the store.
        job: The job, or the variant of an endpoint, that writes the log.
        path: The log file. It need not exist.
        stream: Name of the log stream. It is created with its first line.
        store: Storage of the lines, and of the position.
        position: How many bytes of the file are stored already.
        closing_lines: Lines of drydock itself, which follow those of the file. None while the job may still write.
        is_done: Whether this server moves no more lines of the file.
    """

    number: int
    job: LogSource
    path: Path
    stream: str
    store: Store
    position: int = 0
    closing_lines: Sequence[str] | None = None
    is_done: bool = False
    # Sizes of the file, each with the time (ms) at which the file had this size.
    _samples: collections.deque[tuple[int, int]] = field(default_factory=collections.deque)
    _last_sample: tuple[int, int] = (0, 0)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the file that are not stored yet, as of the last sample."""
        return max(0, self._last_sample[0] - self.position)

    def sample(self) -> None:
        """Record how large the file is, and when it was last written."""
        with self._lock:
            try:
                status = os.lstat(self.path)
            except OSError:  # the file does not exist yet, or the job has deleted it
                return
            last_size, last_ms = self._last_sample
            if status.st_size <= last_size or not stat.S_ISREG(status.st_mode):
                return
            # The job can set the file's time to any value.
            written_ms = min(max(status.st_mtime_ns // 1_000_000, last_ms), int(time.time() * 1000))
            self._last_sample = (status.st_size, written_ms)
            if len(self._samples) >= MAX_SAMPLES:
                self._samples.pop()
            self._samples.append(self._last_sample)

    def end(self, closing_lines: Sequence[str]) -> None:
        """Record that the job writes no more, so that the last lines can be moved. A second call changes nothing.

        Args:
            closing_lines: Lines of drydock itself, which follow those of the file.
        """
        with self._lock:
            if self.closing_lines is not None:
                return
            self.sample()
            with contextlib.suppress(sqlite3.Error), self.store.transaction() as db:  # the disk may be full
                statement = "UPDATE log_files SET closing_lines = ? WHERE id = ?"
                db.execute(statement, (json.dumps(list(closing_lines)), self.number))
            self.closing_lines = list(closing_lines)
            if not self._samples and self.backlog_bytes:
                self._samples.append(self._last_sample)  # for the last line, which has no newline

    def rename_file(self) -> None:
        """Rename the file, if it is not stored completely: the job's next run writes a file of the same name."""
        with self._lock:
            if not self.is_done and self.path.suffix != f".{self.number}":
                path = build_earlier_log_path(self.path, self.number)
                with contextlib.suppress(OSError):  # there is no file
                    self.path.rename(path)
                self.path = path

    def move_lines(self) -> bool:
        """Store the next lines of the file. Return whether there may be more.

        Raises:
            sqlite3.Error: The disk is full or not writable. A retry can help.
            ResourceNotFoundException, KeyError: A client deletes the log stream at this moment. A retry can help.
        """
        with self._lock:
            if self.is_done:
                return False
            if self.job.is_discarded:
                self._finish(blocks=[])
                return False
            if self._samples:
                self._move_part(*self._samples[0])
                return True
            if self.closing_lines is None:
                return False
            data = "\n".join(self.closing_lines).encode()
            self._finish(build_blocks(data, int(time.time() * 1000)) if data else [])
            return False

    def _move_part(self, size: int, written_ms: int) -> None:
        """Store the next lines that end before `size`."""
        data = self._read(min(READ_BYTES, size - self.position))
        end = self._find_end(data, size)
        if end:
            blocks = build_blocks(data[:end], written_ms)
            self._update_metrics(blocks)
            self._store_blocks(blocks, self.position + end)
        if not end or self.position >= size:
            self._samples.popleft()

    def _find_end(self, data: bytes, size: int) -> int:
        """Return how many of these bytes to store: whole lines, a piece of a long line, or the incomplete last line.

        0 if the rest of the line may still follow.
        """
        if end := data.rfind(b"\n") + 1:
            return end
        if len(data) > BLOCK_MAX_BYTES:
            # The piece ends before the end of the data, where a part of a character may be missing.
            return find_piece_end(data, (len(data) - 1) // BLOCK_MAX_BYTES * BLOCK_MAX_BYTES)
        is_last_line = self.closing_lines is not None and len(self._samples) == 1 and self.position + len(data) >= size
        return len(data) if is_last_line else 0

    def _read(self, size: int) -> bytes:
        if size <= 0:
            return b""
        try:
            with open_regular_file(self.path) as file:
                file.seek(self.position)
                return file.read(size)
        except OSError:  # the job has replaced the file with something else
            return b""

    def _update_metrics(self, blocks: Sequence[LineBlock]) -> None:
        if self.job.has_metrics:
            for block in blocks:
                self.job.update_metrics(read_lines(block.content), block.timestamp)

    def _store_blocks(self, blocks: Sequence[LineBlock], position: int) -> None:
        statement = "UPDATE log_files SET position = ? WHERE id = ?"
        self._append(blocks, lambda db: db.execute(statement, (position, self.number)))
        self.position = position

    def _finish(self, blocks: Sequence[LineBlock]) -> None:
        """Store the last blocks, and delete the forwarder's row."""
        statement = "DELETE FROM log_files WHERE id = ?"
        if blocks:
            self._append(blocks, lambda db: db.execute(statement, (self.number,)))
        else:
            with self.store.transaction() as db:
                db.execute(statement, (self.number,))
        self.is_done = True
        if self.path.suffix == f".{self.number}":
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _append(self, blocks: Sequence[LineBlock], update: Callable[[sqlite3.Connection], object]) -> None:
        # Looked up each time, since a reset of moto creates a new backend.
        backend: Any = logs_backends[self.job.account_id][self.job.region]
        backend.append_blocks(self.job.log_group, self.stream, blocks, update)


def build_earlier_log_path(path: Path, number: int) -> Path:
    """Return the path that the log file of a run gets when the job's next run begins.

    Args:
        path: The log file of the job's current run.
        number: Number of the earlier run's forwarder.
    """
    return path.with_name(f"{path.name}.{number}")
