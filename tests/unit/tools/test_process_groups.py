"""Stop a whole process group, before and after its leader is reaped, and no other group."""

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
    ("after", "reaped"),
    [("import time; time.sleep(300)", False), ("", False), ("", True)],
    ids=["its leader lives", "its leader has ended", "its leader is reaped"],
)
def test_stops_all_processes_of_a_group(commands, until, after, reaped):
    leader = commands.start(sys.executable, "-c", LEADER.format(after=after))
    assert leader.stdout.readline() == "ready\n"
    if reaped:
        leader.wait()
    end_group(leader)
    until(lambda: not commands.members(leader.pid))
    end_group(leader)  # a second call has nothing to do, and raises nothing


def test_does_not_signal_a_later_process_with_the_same_pid(commands):
    gone, other = commands.start("true"), commands.start("sleep", "300")
    gone.wait()
    own, gone.pid = gone.pid, other.pid
    end_group(gone)
    gone.pid = own
    other.terminate()
    assert other.wait() == -signal.SIGTERM, "no signal was sent before: the first deadly signal decides the exit status"


def test_first_deadly_signal_decides_the_exit_status(commands):
    """The test above relies on this."""
    other = commands.start("sleep", "300")
    signal_group(other)
    other.terminate()
    assert other.wait() == -signal.SIGKILL
