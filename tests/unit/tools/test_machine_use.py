"""Test the line on the machine's CPU times."""

from collections import namedtuple

import psutil

from tests.tools.machine_use import format_use

LINUX = namedtuple("LINUX", "user nice system idle iowait irq softirq steal guest guest_nice")
OTHER = namedtuple("OTHER", "user system idle")


def test_line_has_the_minutes_since_the_start():
    start = LINUX(100, 10, 20, 1000, 5, 1, 1, 3, 50, 0)
    end = LINUX(3040, 70, 600, 1120, 65, 11, 11, 33, 950, 0)
    line = format_use(start, end, 2)
    assert "2 cores" in line and "60.0 minutes of CPU, 10.0 of them in the kernel" in line
    assert line.endswith("idle 2.0, waiting for a disk 1.0, stolen 0.5")


def test_a_system_that_measures_less_has_zeros():
    line = format_use(OTHER(0, 0, 0), OTHER(60, 60, 60), 1)
    assert "2.0 minutes of CPU, 1.0 of them in the kernel; idle 1.0, waiting for a disk 0.0, stolen 0.0" in line


def test_times_of_this_machine_can_be_formatted():
    times = psutil.cpu_times()
    assert "; 0.0 minutes of CPU" in format_use(times, times, 1)
