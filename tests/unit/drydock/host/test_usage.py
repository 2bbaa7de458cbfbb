"""Test the measurement of processes: CPU of children that have ended, orphans, and memory that processes share."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from drydock.host.usage import UsageMeter, list_processes
from tests.tools.waiting import wait_until

MEMORY_MIB = 1024
# A line of stdin starts the work; after it, the script waits.
BURN = "import time\nwhile time.process_time() < 1: sum(range(1000))\n"
BURN_IN_CHILD = f"import subprocess\nsubprocess.run([sys.executable, '-c', {BURN!r}], check=True)\n"
SHARE = "import os\nblocks = bytearray(b'x') * (64 << 20)\nfor _ in range(3):\n    os.fork() or time.sleep(3600)\n"
# The child's own parent ends at once.
ORPHAN = (
    "import os\nif (child := os.fork()) == 0:\n    os.fork() or time.sleep(3600)\n    os._exit(0)\n"
    "os.waitpid(child, 0)\n"
)


@contextmanager
def run_script(work: str) -> Iterator[Any]:
    """Run a script in a process group of its own during a block; yield the process, which waits for a line."""
    script = f"import sys, time\nsys.stdin.readline()\n{work}print('done', flush=True)\ntime.sleep(3600)\n"
    command, pipes = [sys.executable, "-c", script], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            for item in list_processes(psutil.Process(process.pid)):
                item.kill()


def do_work(process: Any) -> None:
    """Start the work of a script, and wait for its end."""
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"done\n"


@pytest.mark.parametrize("work", [BURN, BURN_IN_CHILD])
def test_seconds_of_a_process_and_of_a_child_that_has_ended_count(work: str) -> None:
    with run_script(work) as process:
        meter = UsageMeter(MEMORY_MIB)
        assert meter.measure(process.pid) is None, "the first measurement has no earlier one"
        began = time.monotonic()
        do_work(process)
        usage = meter.measure(process.pid)
        passed_s = time.monotonic() - began
        assert usage is not None
        assert usage.cpu_percent * passed_s / 100 == pytest.approx(1, abs=0.5), "a second, and the start of Python"
        idle = wait_until(lambda: meter.measure(process.pid))
        assert idle.cpu_percent < 50, "the control: it waits now"


def test_memory_that_processes_share_counts_once() -> None:
    with run_script(SHARE) as process:
        meter = UsageMeter(MEMORY_MIB)
        do_work(process)
        meter.measure(process.pid)
        usage = wait_until(lambda: meter.measure(process.pid))
        assert 100 * 64 / MEMORY_MIB < usage.memory_percent < 100 * 2 * 64 / MEMORY_MIB, "four processes have 64 MiB"


def test_process_without_a_parent_in_the_group_counts() -> None:
    with run_script(ORPHAN) as process:
        assert len(list_processes(psutil.Process(process.pid))) == 1, "the control"
        do_work(process)
        assert len(list_processes(psutil.Process(process.pid))) == 2


def test_end_of_an_orphan_gives_no_negative_seconds_and_hides_no_others() -> None:
    with run_script(ORPHAN + BURN) as process:
        meter = UsageMeter(MEMORY_MIB)
        do_work(process)
        meter.measure(process.pid)
        leader = psutil.Process(process.pid)
        (orphan,) = (item for item in list_processes(leader) if item.pid != process.pid)
        orphan.kill()
        wait_until(lambda: len(list_processes(leader)) == 1)
        usage = meter.measure(process.pid)
        assert usage is not None and 0 <= usage.cpu_percent < 50


def test_process_that_has_ended_has_no_usage() -> None:
    meter = UsageMeter(MEMORY_MIB)
    with run_script("") as process:
        meter.measure(process.pid)
        psutil.Process(process.pid).kill()
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        assert meter.measure(process.pid) is None
    assert meter.measure(process.pid) is None
