"""Test that a whole process group is stopped, before and after its leader is reaped, and no other group."""

import signal
import sys

import pytest

from tests.tools.groups import end_group, signal_group

LEADER = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "print('ready', flush=True); import time; time.sleep(300)"])
{after}
"""


@pytest.mark.parametrize(
    ("after", "is_reaped"),
    [("import time; time.sleep(300)", False), ("", False), ("", True)],
    ids=["leader lives", "leader has ended", "leader is reaped"],
)
def test_all_processes_of_a_group_are_stopped(commands, until, after, is_reaped):
    leader = commands.start(sys.executable, "-c", LEADER.format(after=after))
    assert leader.stdout.readline() == "ready\n"
    if is_reaped:
        leader.wait()
    end_group(leader)
    until(lambda: not commands.list_members(leader.pid))
    end_group(leader)  # a second call does nothing and raises nothing


def test_later_process_with_the_same_pid_gets_no_signal(commands):
    ended_process, other_process = commands.start("true"), commands.start("sleep", "300")
    ended_process.wait()
    pid, ended_process.pid = ended_process.pid, other_process.pid
    end_group(ended_process)
    ended_process.pid = pid
    other_process.terminate()
    assert other_process.wait() == -signal.SIGTERM, (
        "the first deadly signal decides the exit status, so no other signal was sent before"
    )


def test_first_deadly_signal_decides_the_exit_status(commands):
    """The test above relies on this."""
    other = commands.start("sleep", "300")
    signal_group(other)
    other.terminate()
    assert other.wait() == -signal.SIGKILL
