"""The logs of all jobs and endpoints: one thread moves their lines to CloudWatch Logs while the processes run."""

import contextlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from moto.logs.exceptions import ResourceNotFoundException

from drydock.execution.log_forwarder import SCHEMA, LogForwarder, build_earlier_log_path
from drydock.host.log_source import LogSource
from drydock.host.tree import HostTree
from drydock.jobs.job import Job
from drydock.store import Store

log = logging.getLogger(__name__)

# Seconds between two samples of the sizes of the log files.
SAMPLE_S = 0.1
# Seconds until the next attempt after an error, such as a full disk.
ERROR_PAUSE_S = 1.0
# If at most this many bytes of a job's log remain, the end of the job waits until they are stored, at most this long.
SMALL_BACKLOG_BYTES = 8 << 20
SMALL_BACKLOG_WAIT_S = 30.0
# Seconds for which a server that shuts down still moves lines. The next server moves the remaining ones.
CLOSE_WAIT_S = 2.0

_INSERT = "INSERT INTO log_files (kind, account, region, job, host, stream) VALUES (?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT id, position, closing_lines, kind, account, region, job, host, stream FROM log_files ORDER BY id"


class JobLogs:
    """Moves the logs of one server's jobs and endpoints to CloudWatch Logs. Safe for several threads.

    Args:
        store: Storage of the lines, and of how far each file was read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forwarders: list[LogForwarder] = []
        self._condition = threading.Condition()
        self._is_stopping = False
        self._has_failed = False  # whether the lines could not be stored in the last round
        self._sampled_at = 0.0
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        store.create_tables(SCHEMA)

    def start(self) -> None:
        """Begin to move lines."""
        self._thread.start()

    def open(self, job: LogSource, trees: Sequence[HostTree]) -> list[LogForwarder]:
        """Begin to follow the log files of a job's new run, whose commands have not started.

        Args:
            job: The job, whose new run begins; or a variant of an endpoint.
            trees: The trees of the job's hosts.

        Returns:
            A forwarder for each host.
        """
        for forwarder in self.find_forwarders(job):
            forwarder.rename_file()
        for tree in trees:  # the log of an earlier run, which is stored completely, must not be read again
            with contextlib.suppress(OSError):
                tree.log.unlink()
        epoch = int(time.time())
        forwarders = [self._insert(job, tree, f"{job.name}/{tree.host}-{epoch}") for tree in trees]
        with self._condition:
            self._forwarders += forwarders
        return forwarders

    def resume(self, list_trees: Callable[[Job], Sequence[HostTree]], find_job: Callable[..., Job | None]) -> None:
        """Continue to move the lines of log files that an earlier server has not moved completely.

        The remaining lines of a job or host that does not exist any more are not moved.

        Args:
            list_trees: Returns the trees of a job's hosts.
            find_job: Returns a job by its kind, account, region and name; None if it does not exist any more.
        """
        for number, position, closing_lines, *key, host, stream in self._store.query(_SELECT):
            job = find_job(*key)
            tree = next((tree for tree in list_trees(job) if tree.host == host), None) if job else None
            if job is None or tree is None:
                with self._store.transaction() as db:
                    db.execute("DELETE FROM log_files WHERE id = ?", (number,))
                continue
            lines = None if closing_lines is None else json.loads(closing_lines)
            forwarder = LogForwarder(number, job, _find_path(tree.log, number), stream, self._store, position, lines)
            forwarder.sample()
            if job.status.is_final:
                forwarder.end(closing_lines=[])
            self._forwarders.append(forwarder)

    def find_forwarders(self, job: LogSource) -> list[LogForwarder]:
        """Return the forwarders of a job that are not done."""
        with self._condition:
            return [forwarder for forwarder in self._forwarders if forwarder.job is job and not forwarder.is_done]

    def end(self, forwarders: Sequence[LogForwarder], closing_lines: Sequence[str] = ()) -> None:
        """Notify forwarders that the commands of their run have ended, so that the last lines can be moved. Idempotent.

        Args:
            forwarders: The forwarders; the first gets the closing lines.
            closing_lines: Lines of drydock itself for the job's log.
        """
        for forwarder in forwarders:
            forwarder.end(closing_lines if forwarder is forwarders[0] else ())
        with self._condition:
            self._condition.notify_all()

    def wait(self, forwarders: Sequence[LogForwarder], max_wait_s: float) -> None:
        """Wait until the last lines of forwarders are stored.

        Give up after the maximum time, when the server shuts down, and when the lines cannot be stored.

        Args:
            forwarders: The forwarders, after `end`.
            max_wait_s: Maximum seconds to wait while more than SMALL_BACKLOG_BYTES remain. While fewer bytes remain,
                the maximum is SMALL_BACKLOG_WAIT_S.
        """
        started_at = time.monotonic()

        def is_wait_over() -> bool:
            remaining_bytes = sum(forwarder.backlog_bytes for forwarder in forwarders)
            limit_s = SMALL_BACKLOG_WAIT_S if remaining_bytes <= SMALL_BACKLOG_BYTES else max_wait_s
            is_late = time.monotonic() - started_at >= limit_s
            is_done = all(forwarder.is_done for forwarder in forwarders)
            return is_done or is_late or self._is_stopping or self._has_failed

        with self._condition:
            while not is_wait_over():
                self._condition.wait(SAMPLE_S)

    def close(self) -> None:
        """Stop moving lines, after at most CLOSE_WAIT_S seconds. The next server moves the remaining lines."""
        deadline = time.monotonic() + CLOSE_WAIT_S
        with self._condition:
            while any(forwarder.backlog_bytes for forwarder in self._forwarders) and time.monotonic() < deadline:
                self._condition.wait(SAMPLE_S)
            self._is_stopping = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _insert(self, job: LogSource, tree: HostTree, stream: str) -> LogForwarder:
        values = (job.kind, job.account_id, job.region, job.name, tree.host, stream)
        with self._store.transaction() as db:
            number = db.execute(_INSERT, values).lastrowid
        return LogForwarder(int(number or 0), job, tree.log, stream, self._store)

    def _run(self) -> None:
        while not self._is_stopping:
            pause_s = SAMPLE_S
            try:
                has_more = self._move_round()
                self._has_failed = False
                if has_more:
                    continue
            except sqlite3.Error as error:
                log.error("logs cannot be stored: %s", error)
                self._has_failed, pause_s = True, ERROR_PAUSE_S
            with self._condition:
                if not self._is_stopping:
                    self._condition.wait(pause_s)

    def _move_round(self) -> bool:
        """Move a part of each log, in turn. Return whether there may be more."""
        with self._condition:
            forwarders = list(self._forwarders)
        has_more = False
        for forwarder in forwarders:
            if self._is_stopping:
                return False
            try:
                self._sample_if_due(forwarders)
                has_more |= forwarder.move_lines()
            except (ResourceNotFoundException, KeyError):  # a client has deleted the stream at this moment
                has_more = True
            except sqlite3.Error:
                raise
            except Exception:  # neither the other logs nor the end of the job may wait for this log
                log.exception(
                    "the log of job %s will be stored after a restart of drydock: internal error", forwarder.job.name
                )
                forwarder.is_done = True
        with self._condition:
            self._forwarders = [forwarder for forwarder in self._forwarders if not forwarder.is_done]
            self._condition.notify_all()
        return has_more

    def _sample_if_due(self, forwarders: Sequence[LogForwarder]) -> None:
        # Called before each part: the time of a line is the time of the first sample that includes the line.
        if time.monotonic() - self._sampled_at >= SAMPLE_S:
            for forwarder in forwarders:
                forwarder.sample()
            self._sampled_at = time.monotonic()


def _find_path(log_file: Path, number: int) -> Path:
    """Return the log file of a run: it has another name if the job's next run has begun."""
    path = build_earlier_log_path(log_file, number)
    return path if path.exists() else log_file
