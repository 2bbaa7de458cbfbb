"""Decide whether `make test` runs the files with failed tests once more, and say why.

After a laptop's sleep, or while the host of a virtual machine saves it, all clocks are ahead at once: limits pass, and
what lasts seconds is over before a test reads it. On a machine whose cores are shared with others, the same happens to
a few of the tests that start real processes. A second run without other tests tells such a failure from a defect.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

EXIT_CODE = 75
"""Exit code of a run whose failed files run once more (`EX_TEMPFAIL` of sysexits.h)."""
FAILED_FILES = Path(".leeway/failed-test-files")
"""The files with failed tests, a path on each line, after a run that ended with `EXIT_CODE`."""
REAL_PROCESS_FOLDERS = ("tests/integration/", "tests/e2e/")
MAX_FILES = 3
"""Most files that run once more if the machine was not paused. More than a few failures are no bad luck."""
TICK_S = 1.0


class SecondRunPlugin:
    """Plug-in of pytest that gives a failed run `EXIT_CODE` if its failures may come from the machine.

    They may if the machine was paused, or if all of them are in a few files of tests that start real processes.

    Args:
        min_pause_s: seconds without a tick of a thread from which the machine counts as paused. A busy machine delays
            a tick by less.
    """

    def __init__(self, min_pause_s: float = 30.0) -> None:
        self.min_pause_s = min_pause_s
        self.pauses_s: list[float] = []
        self.failed_files: set[str] = set()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        last_times = (time.monotonic(), time.time())
        while True:
            time.sleep(TICK_S)
            times = (time.monotonic(), time.time())
            pause_s = max(now - then for now, then in zip(times, last_times, strict=True)) - TICK_S
            if pause_s > self.min_pause_s:
                self.pauses_s.append(pause_s)
            last_times = times

    def _has_few_failures_of_real_processes(self) -> bool:
        return len(self.failed_files) <= MAX_FILES and all(
            file.startswith(REAL_PROCESS_FOLDERS) for file in self.failed_files
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed_files.add(report.nodeid.partition("::")[0])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        may_come_from_machine = bool(self.pauses_s) or self._has_few_failures_of_real_processes()
        # An empty list of files would run the whole suite again.
        if exitstatus == pytest.ExitCode.TESTS_FAILED and self.failed_files and may_come_from_machine:
            session.exitstatus = EXIT_CODE
            path = session.config.rootpath / FAILED_FILES
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{file}\n" for file in sorted(self.failed_files)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.pauses_s:
            pauses = ", ".join(f"{pause_s:,.0f} s" for pause_s in self.pauses_s)
            terminalreporter.write_line(f"The machine was paused during this run: {pauses}.")
