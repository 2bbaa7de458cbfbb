"""The job's log in CloudWatch Logs: each new line of the job's output is written there while the job runs."""

import collections
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from moto.logs.models import logs_backends

from drydock.transfer.stable_read import open_regular_file

DEFAULT_GROUP = "/aws/sagemaker/TrainingJobs"
MAX_LAST_LINES = 40
READ_BYTES = 1 << 20
READS_PER_CALL = 8
# CloudWatch's limit for one event is 256 KiB; a character has at most 4 bytes.
EVENT_MAX_CHARS = 60_000


class LogStream:
    """One log stream that a job writes to. It is created with its first line.

    Args:
        account_id: The job's account.
        region: The job's region.
        name: Name of the stream.
        group: Name of the stream's group.
    """

    def __init__(self, account_id: str, region: str, name: str, group: str = DEFAULT_GROUP) -> None:
        self._account_id, self._region = account_id, region
        self.name, self.group = name, group
        self._last_ms = 0

    def write(self, lines: Sequence[str]) -> None:
        """Append lines to the stream, in their order."""
        if not lines:
            return
        # If the clock is set back, a line must not be placed before lines that a reader has already seen.
        time_ms = self._last_ms = max(int(time.time() * 1000), self._last_ms)
        # An event must not be empty, but a line of a log may be.
        events = [{"timestamp": time_ms, "message": line or " "} for line in lines]
        # Looked up for each write, since a reset of moto creates a new backend.
        backend = logs_backends[self._account_id][self._region]
        backend.ensure_log_group(self.group)
        backend.ensure_log_stream(self.group, self.name)
        backend.put_log_events(self.group, self.name, events)


class LogTail:
    """Follows the log file that a job writes, and sends each new line to a log stream.

    Args:
        path: The file; it need not exist yet.
        stream: The log stream.
        on_line: Called with each line.
    """

    def __init__(self, path: Path, stream: LogStream, on_line: Callable[[str], None]) -> None:
        self._path, self._stream, self._on_line = path, stream, on_line
        self._offset = 0
        self._incomplete_line = b""
        self.last_lines: collections.deque[str] = collections.deque(maxlen=MAX_LAST_LINES)
        """The last lines of the file, for a FailureReason."""

    def send_new_lines(self, *, is_final: bool = False) -> None:
        """Send the complete new lines of the file.

        Args:
            is_final: Whether the job has ended: then also send an incomplete last line, and read to the end. Otherwise
                the number of reads is limited, since a job may write faster than this method reads.
        """
        reads = 0
        while (is_final or reads < READS_PER_CALL) and (data := self._read()):
            reads += 1
            *lines, self._incomplete_line = (self._incomplete_line + data).split(b"\n")
            self._send(lines)
            if len(self._incomplete_line) > EVENT_MAX_CHARS:
                self._send([self._incomplete_line])
                self._incomplete_line = b""
        if is_final and self._incomplete_line:
            self._send([self._incomplete_line])
            self._incomplete_line = b""

    def write_line(self, line: str) -> None:
        """Write a line of drydock, which is not in the file, to the log stream."""
        self._stream.write([line])

    def _read(self) -> bytes:
        try:
            with open_regular_file(self._path) as file:
                file.seek(self._offset)
                data = file.read(READ_BYTES)
        except OSError:  # the file does not exist yet, or the job has replaced it with something else
            return b""
        self._offset += len(data)
        return data

    def _send(self, raw_lines: Sequence[bytes]) -> None:
        lines = [line for raw_line in raw_lines for line in _split_long_line(raw_line)]
        for line in lines:
            self._on_line(line)
        self.last_lines.extend(lines)
        self._stream.write(lines)


def _split_long_line(raw_line: bytes) -> Iterator[str]:
    text = raw_line.decode("utf-8", errors="replace").rstrip("\r")
    yield text[:EVENT_MAX_CHARS]
    for start in range(EVENT_MAX_CHARS, len(text), EVENT_MAX_CHARS):
        yield text[start : start + EVENT_MAX_CHARS]
