"""Test the priority of a model server while it loads its model."""

import subprocess
import sys
from pathlib import Path

import pytest

from drydock.endpoints.instances.model_server import AUTOGROUP_FILE

ROOT = Path(__file__).parents[4]
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
