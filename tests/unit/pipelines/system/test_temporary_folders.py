"""Test that temporary folders are removed: at the end of the block, and those of a killed process by the next one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.system.temporary_folders import make_temporary_folder

HOLD = """
from pipelines.system.temporary_folders import make_temporary_folder
with make_temporary_folder() as folder:
    (folder / "rows").write_text("x")
    print(folder, flush=True)
    input()
"""


def test_folder_is_removed_after_an_error_too(home: Path) -> None:
    with pytest.raises(FileNotFoundError), make_temporary_folder() as folder:
        (folder / "missing/rows").touch()
    assert list((home / "tmp").iterdir()) == []


def test_folder_of_a_killed_process_is_removed_by_the_next_one_and_that_of_a_living_one_stays(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdin and process.stdout
    with process:
        held_folder = Path(process.stdout.readline().strip())
        with make_temporary_folder() as folder, make_temporary_folder() as other_folder:
            assert held_folder.is_dir() and folder.is_dir() and other_folder.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (held_folder / "rows").exists()
    with make_temporary_folder("spark-"):
        assert held_folder.exists(), "the folder has another prefix"
    with make_temporary_folder() as folder:
        assert list((home / "tmp").iterdir()) == [folder]


MAKE_MANY = """
from pipelines.system.temporary_folders import make_temporary_folder
for _ in range(500):
    with make_temporary_folder() as folder:
        (folder / "rows").touch()
        assert (folder / "rows").exists()
"""


def test_processes_do_not_remove_the_new_folders_of_each_other(home: Path) -> None:
    command = [sys.executable, "-c", MAKE_MANY]
    processes = [subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 4
    assert list((home / "tmp").iterdir()) == []
