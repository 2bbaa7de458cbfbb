"""Ending a group: all of it, before and after its leader is reaped, and never another's."""

import signal
import sys

import pytest

from tests.tools.groups import end_group, signal_group

LEADER = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "print('there', flush=True); import time; time.sleep(300)"])
{after}
"""


@pytest.mark.parametrize(
    ("after", "reaped"),
    [("import time; time.sleep(300)", False), ("", False), ("", True)],
    ids=["its leader lives", "its leader has ended", "its leader is reaped"],
)
def test_all_of_a_group_is_ended(commands, until, after, reaped):
    leader = commands.start(sys.executable, "-c", LEADER.format(after=after))
    assert leader.stdout.readline() == "there\n"
    if reaped:
        leader.wait()
    end_group(leader)
    until(lambda: not commands.members(leader.pid))
    end_group(leader)  # again: nothing to do, nothing raised


def test_a_number_that_is_another_s_by_now_is_left_alone(commands):
    gone, other = commands.start("true"), commands.start("sleep", "300")
    gone.wait()
    own, gone.pid = gone.pid, other.pid
    end_group(gone)
    gone.pid = own
    other.terminate()
    assert other.wait() == -signal.SIGTERM, "the first signal that kills says how it ended: none was sent before"


def test_the_first_signal_that_kills_says_how_it_ended(commands):
    """What the test above relies on."""
    other = commands.start("sleep", "300")
    signal_group(other)
    other.terminate()
    assert other.wait() == -signal.SIGKILL
