"""Write the documents of Leeway's page when the lake or the parameters have changed, and somebody visits the page."""

from __future__ import annotations

import datetime as dt
import math
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pipelines.code_files import MODELS_FOLDER, PARAMS_FILE
from pipelines.errors import LeewayError
from pipelines.lake.cached import CachedLake, read_table_locations
from pipelines.settings import settings
from pipelines.status.jobs.running import RunningJobsWriter
from pipelines.status.writing import FOLDER, write_documents
from pipelines.system.error_translation import translate_error
from pipelines.system.log import log

RETRY_S = 60.0
"""Seconds after which a document that could not be written is retried, even if nothing has changed."""
VISIT_S = 300.0
"""Changes are written until this number of seconds after the page's last request."""
MAX_PAUSE_S = 30.0
"""Longest pause, seconds, that a slow write causes. A longer `interval_s` is not shortened."""
LAST_CHECK_FILE, LAST_REQUEST_FILE = "watched", "requested"
"""Empty files beside the documents. This process touches the first after each check of the lake that raised no error.
Airflow's API server touches the second each time the page requests a document."""
BUSY_FACTOR = 3
"""Shortest pause after the documents were written, as a multiple of the time that this took. So a lake that changes all
the time costs at most a quarter of a CPU, unless the pause is `MAX_PAUSE_S`."""


def watch(interval_s: float) -> None:
    """Write the documents when their contents may have changed and somebody visits the page, until SIGTERM or SIGINT.

    The first check always writes. After it, nothing is written while nobody visits the page, because reading the lake
    takes a second, and a backfill commits hundreds of times.

    The contents may have changed if the location of a table's metadata, the modification time of a file of parameters
    or the day in UTC has changed. One query reads all locations. An outage of the lake is logged once, and retried at
    the next check. While somebody visits the page, running jobs are read from SageMaker at most every 15 seconds.

    Args:
        interval_s: seconds between two checks.

    Raises:
        SystemExit: the process got a signal; the exit code is 0.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    watcher, running_jobs = Watcher(), RunningJobsWriter()
    while True:
        started_at = time.monotonic()
        has_written = watcher.check()
        _write_running_jobs(running_jobs)
        elapsed_s = time.monotonic() - started_at
        time.sleep(max(interval_s, min(BUSY_FACTOR * elapsed_s, MAX_PAUSE_S) if has_written else 0.0))


def _write_running_jobs(writer: RunningJobsWriter) -> None:
    """Write the jobs that run, if somebody visits the page."""
    with suppress(OSError):  # a full disk is reported where the other documents are written
        if _is_requested():
            writer.write_if_due()


class Watcher:
    """Writes the documents if the lake, the parameters or the day have changed since it last wrote them.

    Args:
        write: writes the documents; returns those that could not be written, and the errors.
    """

    def __init__(self, write: Callable[[CachedLake], Mapping[str, LeewayError]] = write_documents) -> None:
        self._write = write
        self._lake: CachedLake | None = None
        self._fingerprint: Any = None
        """Value of `_read_fingerprint` at the last attempt to write the documents; None before the first one."""
        self._problems: Mapping[str, str] = {}
        """Maps each document that could not be written to the reason."""
        self._outage_message = ""
        """Message of an outage, which is logged once; empty after it has ended."""
        self._retry_at = math.inf
        """Value of `time.monotonic()` from which the documents are written even if nothing has changed."""

    def check(self) -> bool:
        """Write the documents if they may have changed and somebody visits the page. The first check always writes.

        Returns:
            Whether the documents were written, or writing them failed.
        """
        try:
            lake = self._lake = self._lake or CachedLake.open()
            fingerprint = _read_fingerprint(lake)
        except Exception as error:  # a lake that does not answer must not end the watcher
            self._lake = None  # the next check opens it again
            self._report_outage(error)
            return False
        is_current = fingerprint == self._fingerprint and time.monotonic() < self._retry_at
        if is_current and self._retry_at == math.inf:
            self._outage_message = ""
        if is_current or (self._fingerprint is not None and not _is_requested()):
            _touch_last_check_file()
            return False
        self._fingerprint = fingerprint
        try:
            lake.refresh()
            problems = {name: error.message for name, error in self._write(lake).items()}
        except Exception as error:  # for example a full disk
            self._retry_at = time.monotonic() + RETRY_S
            self._report_outage(error)
            return True
        self._outage_message, self._retry_at = "", time.monotonic() + RETRY_S if problems else math.inf
        for name, reason in problems.items():
            if self._problems.get(name) != reason:
                log.error("status: %s cannot be written: %s", name, reason)
        self._problems = problems
        _touch_last_check_file()
        return True

    def _report_outage(self, error: Exception) -> None:
        message = translate_error(error).message
        if message != self._outage_message:
            log.error("status: the documents cannot be written: %s", message)
        self._outage_message = message


def _read_fingerprint(lake: CachedLake) -> tuple[Any, ...]:
    """Return a value that changes with the tables, the files of parameters and the day."""
    project = settings().project
    files = [project / PARAMS_FILE, *(project / MODELS_FOLDER).glob(f"*/{PARAMS_FILE}")]
    times = {str(path): path.stat().st_mtime_ns for path in files if path.exists()}
    return read_table_locations(lake.catalog), times, dt.datetime.now(dt.UTC).date()


def _is_requested() -> bool:
    """Return whether the page requested a document in the last `VISIT_S` seconds."""
    try:
        return time.time() - (settings().home / FOLDER / LAST_REQUEST_FILE).stat().st_mtime < VISIT_S
    except FileNotFoundError:
        return False


def _touch_last_check_file() -> None:
    """Record that the lake was checked now."""
    with suppress(OSError):  # a full disk is reported where the documents are written
        (settings().home / FOLDER).mkdir(parents=True, exist_ok=True)
        (settings().home / FOLDER / LAST_CHECK_FILE).touch()


def _exit(*_: object) -> None:
    raise SystemExit(0)
