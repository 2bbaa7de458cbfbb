"""Print at the end of a run how busy the machine was, so that a slow run can be told from a slow machine."""

from __future__ import annotations

from typing import Any

import psutil
import pytest


def format_use(start: Any, end: Any, cores: int) -> str:
    """Return a line on what all cores of the machine did between two results of `psutil.cpu_times`.

    Args:
        start: times at the beginning of the run.
        end: times at its end.
        cores: number of cores that the run may use.
    """
    minutes = {name: (value - getattr(start, name)) / 60 for name, value in end._asdict().items()}
    kernel = sum(minutes.get(name, 0.0) for name in ("system", "irq", "softirq"))
    work = minutes["user"] + minutes.get("nice", 0.0) + kernel
    return (
        f"machine: {cores} cores for this process; {work:.1f} minutes of CPU, {kernel:.1f} of them in the kernel; "
        f"idle {minutes['idle']:.1f}, waiting for a disk {minutes.get('iowait', 0.0):.1f}, "
        f"stolen {minutes.get('steal', 0.0):.1f}"
    )


class MachineUsePlugin:
    """Plug-in of pytest that prints the machine's CPU times of a run with workers."""

    def __init__(self) -> None:
        self.start = psutil.cpu_times()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if terminalreporter.config.getoption("numprocesses", None):
            cores = len(psutil.Process().cpu_affinity() or ())
            terminalreporter.write_line(format_use(self.start, psutil.cpu_times(), cores))
