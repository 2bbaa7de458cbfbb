"""The logs of all jobs: one thread moves their lines to CloudWatch Logs, beside the jobs."""

import contextlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from moto.logs.exceptions import ResourceNotFoundException

from drydock.execution.log_drain import SCHEMA, LogDrain, build_old_path
from drydock.host.tree import HostTree
from drydock.jobs.job import Job
from drydock.store import Store

log = logging.getLogger(__name__)

# Seconds between two samples of the sizes of the log files.
SAMPLE_S = 0.1
# Seconds until the next attempt after an error, such as a full disk.
ERROR_PAUSE_S = 1.0
# The end of a job waits for a rest of its log that is this small, which takes a moment, at most for so many seconds.
SMALL_BACKLOG_BYTES = 8 << 20
SMALL_BACKLOG_WAIT_S = 30.0
# Seconds that the end of a server waits for the logs. The next server moves what is left.
CLOSE_WAIT_S = 2.0

_INSERT = "INSERT INTO log_drains (kind, account, region, job, host, stream) VALUES (?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT id, position, closing_lines, kind, account, region, job, host, stream FROM log_drains ORDER BY id"


class LogDrains:
    """The drains of one server. Safe for several threads.

    Args:
        store: Storage of the lines, and of how far each file was read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._drains: list[LogDrain] = []
        self._condition = threading.Condition()
        self._is_stopping = False
        self._has_failed = False
        self._sampled_at = 0.0
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        store.create_tables(SCHEMA)

    def start(self) -> None:
        """Begin to move lines."""
        self._thread.start()

    def open(self, job: Job, trees: Sequence[HostTree]) -> list[LogDrain]:
        """Begin to follow the log files of a job's new run, whose commands have not started.

        Args:
            job: The job.
            trees: The trees of its hosts.

        Returns:
            A drain for each host.
        """
        for drain in self.find(job):
            drain.rename_file()
        for tree in trees:  # the log of an earlier run, which is stored completely, must not be read again
            with contextlib.suppress(OSError):
                tree.log.unlink()
        epoch = int(time.time())
        drains = [self._insert(job, tree, f"{job.name}/{tree.host}-{epoch}") for tree in trees]
        with self._condition:
            self._drains += drains
        return drains

    def resume(self, trees: Callable[[Job], Sequence[HostTree]], find_job: Callable[..., Job | None]) -> None:
        """Go on with the log files that an earlier server has not moved completely.

        Args:
            trees: Returns the trees of a job's hosts.
            find_job: Returns a job by its kind, account, region and name; None if it does not exist any more.
        """
        for number, position, closing_lines, *key, host, stream in self._store.query(_SELECT):
            job = find_job(*key)
            tree = next((tree for tree in trees(job) if tree.host == host), None) if job else None
            if job is None or tree is None:
                with self._store.transaction() as db:
                    db.execute("DELETE FROM log_drains WHERE id = ?", (number,))
                continue
            words = None if closing_lines is None else json.loads(closing_lines)
            drain = LogDrain(number, job, _find_path(tree.log, number), stream, self._store, position, words)
            drain.sample()
            if job.status.is_final:
                drain.end([])
            self._drains.append(drain)

    def find(self, job: Job) -> list[LogDrain]:
        """Return the drains of a job that are not done."""
        with self._condition:
            return [drain for drain in self._drains if drain.job is job and not drain.is_done]

    def end(self, drains: Sequence[LogDrain], closing_lines: Sequence[str] = ()) -> None:
        """End the drains of a run whose commands have ended: what is left is moved soon. Idempotent.

        Args:
            drains: The drains; the first gets the closing lines.
            closing_lines: Lines of drydock itself for the job's log.
        """
        for drain in drains:
            drain.end(closing_lines if drain is drains[0] else ())
        with self._condition:
            self._condition.notify_all()

    def wait(self, drains: Sequence[LogDrain], patience_s: float) -> None:
        """Wait until drains that have ended are done, unless there is much to move.

        Args:
            drains: The drains.
            patience_s: Seconds to wait for a large rest of the log. A small rest is waited for in any case.
        """
        started_at = time.monotonic()

        def is_enough() -> bool:
            left_bytes = sum(drain.backlog_bytes for drain in drains)
            limit_s = SMALL_BACKLOG_WAIT_S if left_bytes <= SMALL_BACKLOG_BYTES else patience_s
            is_late = time.monotonic() - started_at >= limit_s
            return is_late or self._is_stopping or self._has_failed or all(drain.is_done for drain in drains)

        with self._condition:
            while not is_enough():
                self._condition.wait(SAMPLE_S)

    def close(self) -> None:
        """Stop, after a moment for what is left. The next server goes on."""
        deadline = time.monotonic() + CLOSE_WAIT_S
        with self._condition:
            while any(drain.backlog_bytes for drain in self._drains) and time.monotonic() < deadline:
                self._condition.wait(SAMPLE_S)
            self._is_stopping = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _insert(self, job: Job, tree: HostTree, stream: str) -> LogDrain:
        values = (job.kind, job.account_id, job.region, job.name, tree.host, stream)
        with self._store.transaction() as db:
            number = db.execute(_INSERT, values).lastrowid
        return LogDrain(int(number or 0), job, tree.log, stream, self._store)

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
            except Exception:  # without this thread no log would ever be stored again
                log.exception("logs: internal error")
                pause_s = ERROR_PAUSE_S
            with self._condition:
                if not self._is_stopping:
                    self._condition.wait(pause_s)

    def _move_round(self) -> bool:
        """Move a part of each log, in turn. Return whether there may be more."""
        with self._condition:
            drains = list(self._drains)
        has_more = False
        for drain in drains:
            self._sample_if_due(drains)
            if self._is_stopping:
                return False
            try:
                has_more |= drain.move_lines()
            except (ResourceNotFoundException, KeyError):  # a person has deleted the stream at this moment
                has_more = True
        with self._condition:
            self._drains = [drain for drain in self._drains if not drain.is_done]
            self._condition.notify_all()
        return has_more

    def _sample_if_due(self, drains: Sequence[LogDrain]) -> None:
        # Between two parts, too: a line gets the time of the sample that finds it.
        if time.monotonic() - self._sampled_at >= SAMPLE_S:
            for drain in drains:
                drain.sample()
            self._sampled_at = time.monotonic()


def _find_path(log_file: Path, number: int) -> Path:
    """Return the log file of a run: it has another name if the job's next run has begun."""
    path = build_old_path(log_file, number)
    return path if path.exists() else log_file
