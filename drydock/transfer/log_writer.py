"""The job's output, line by line, to CloudWatch Logs while the job runs."""

import collections
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from moto.logs.models import logs_backends

from drydock.transfer.stable_read import open_file

GROUP = "/aws/sagemaker/TrainingJobs"
TAIL_LINES = 40
READ_BYTES = 1 << 20
READS_AT_ONCE = 8
# CloudWatch's limit for one event is 256 KiB.
EVENT_MAX_CHARS = 60_000


class LogStream:
    """One stream that a job writes to, there once a line was written.

    Args:
        account_id: Whose job it is.
        region: Where it runs.
        name: The stream's name.
        group: Its group's name.
    """

    def __init__(self, account_id: str, region: str, name: str, group: str = GROUP) -> None:
        self._account_id, self._region = account_id, region
        self.name, self.group = name, group
        self._last_ms = 0

    def write(self, lines: Sequence[str]) -> None:
        """The lines are events of the stream, in their order."""
        if not lines:
            return
        # A clock that is set back must not put a line before those that a reader has already seen.
        moment_ms = self._last_ms = max(int(time.time() * 1000), self._last_ms)
        # An event must not be empty, and a line of a log may be.
        events = [{"timestamp": moment_ms, "message": line or " "} for line in lines]
        # Asked each time: a reset of moto makes a new one.
        backend = logs_backends[self._account_id][self._region]
        backend.ensure_log_group(self.group)
        backend.ensure_log_stream(self.group, self.name)
        backend.put_log_events(self.group, self.name, events)


class LogTail:
    """Follows the file that the job writes to.

    Args:
        path: The file; it need not be there yet.
        stream: Where its lines go.
        each_line: Also called with every line.
    """

    def __init__(self, path: Path, stream: LogStream, each_line: Callable[[str], None]) -> None:
        self._path, self._stream, self._each_line = path, stream, each_line
        self._offset = 0
        self._rest = b""
        self.last_lines: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)

    def drain(self, *, final: bool = False) -> None:
        """Every line that is complete is in the stream; with final, the incomplete last one too."""
        reads = 0
        # Bounded while the job runs: one that writes faster than this reads must not hold its supervisor.
        while (final or reads < READS_AT_ONCE) and (data := self._read()):
            reads += 1
            *complete, self._rest = (self._rest + data).split(b"\n")
            self._send(complete)
            if len(self._rest) > EVENT_MAX_CHARS:
                self._send([self._rest])
                self._rest = b""
        if final and self._rest:
            self._send([self._rest])
            self._rest = b""

    def note(self, text: str) -> None:
        """A line of drydock's own is in the stream."""
        self._stream.write([text])

    def _read(self) -> bytes:
        try:
            with open_file(self._path) as file:
                file.seek(self._offset)
                data = file.read(READ_BYTES)
        except OSError:  # not there yet; or the job has put something else in its place
            return b""
        self._offset += len(data)
        return data

    def _send(self, raw_lines: Sequence[bytes]) -> None:
        lines = [part for raw in raw_lines for part in _events(raw)]
        for line in lines:
            self._each_line(line)
        self.last_lines.extend(lines)
        self._stream.write(lines)


def _events(raw: bytes) -> Iterator[str]:
    text = raw.decode("utf-8", errors="replace").rstrip("\r")
    yield text[:EVENT_MAX_CHARS]
    for start in range(EVENT_MAX_CHARS, len(text), EVENT_MAX_CHARS):
        yield text[start : start + EVENT_MAX_CHARS]
