"""Notice that the machine was paused during a run, so that `make test` runs the failed files again.

After a laptop's sleep, or while the host of a virtual machine saves it, all clocks are ahead at once: limits pass, and
what lasts seconds is over before a test reads it. Such a failure says nothing about the code.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

EXIT_CODE = 75
"""Exit code of a run whose tests failed, if the machine was paused during it (`EX_TEMPFAIL` of sysexits.h)."""
FAILED_FILES = Path(".leeway/failed-test-files")
"""The files with failed tests, a path on each line, after a run that ended with `EXIT_CODE`."""
TICK_S = 1.0


class PausePlugin:
    """Plug-in of pytest that gives failed runs `EXIT_CODE` if the machine was paused during them.

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

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed_files.add(report.nodeid.partition("::")[0])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and self.pauses_s:
            session.exitstatus = EXIT_CODE
            path = session.config.rootpath / FAILED_FILES
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{file}\n" for file in sorted(self.failed_files)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.pauses_s:
            pauses = ", ".join(f"{pause_s:,.0f} s" for pause_s in self.pauses_s)
            terminalreporter.write_line(f"The machine was paused during this run: {pauses}.")
