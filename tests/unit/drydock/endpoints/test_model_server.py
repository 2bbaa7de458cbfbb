"""Test the priority of a model server while it loads its model."""

import subprocess
import sys
from pathlib import Path

import pytest

from drydock.endpoints.instances.model_server import AUTOGROUP_FILE

ROOT = Path(__file__).parents[4]
REFUSED = """
from types import SimpleNamespace
from drydock.endpoints.instances import model_server

def refuse(*_, **__):
    raise errors.pop(0)

for errors, paused_s in (([BlockingIOError()] * 2 + [OSError()], 0.2), ([PermissionError()], 0.0)):
    model_server.AUTOGROUP_FILE = SimpleNamespace(exists=lambda: True, write_text=refuse)
    pauses = []
    model_server.time = SimpleNamespace(sleep=pauses.append)
    model_server.lower_priority(1)
    assert not errors and sum(pauses) == paused_s, (errors, pauses)
"""
PROGRAM = """
import sys
from drydock.endpoints.instances.model_server import AUTOGROUP_FILE, lower_priority, restore_priority
niceness = int(sys.argv[1])
for change in (lower_priority, restore_priority):
    change(niceness)
    print(AUTOGROUP_FILE.read_text().split()[-1])
"""


@pytest.mark.skipif(not AUTOGROUP_FILE.exists(), reason="this system does not divide the processors among sessions")
@pytest.mark.parametrize(("niceness", "expected"), [(7, ["7", "0"]), (0, ["0", "0"])])
def test_session_has_a_lower_priority_until_the_model_is_loaded(niceness: int, expected: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, str(niceness)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, start_new_session=True)
    assert process.stdout.split() == expected, process.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads and sessions")
def test_only_a_busy_file_of_the_priority_is_written_again() -> None:
    process = subprocess.run([sys.executable, "-c", REFUSED], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
