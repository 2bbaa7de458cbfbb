"""Test that a forked process behaves like a process that was started anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tools import forking

PYTHON = sys.executable
ROOT = Path(__file__).parents[3]
SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command once anew and once forked, assert that both give the same, and return the result."""
    command = [PYTHON, *arguments]
    real = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    forked_result = forking.run(command, capture_output=True, text=True, **options)
    assert (forked_result.returncode, forked_result.stdout, forked_result.stderr) == (
        real.returncode,
        real.stdout,
        real.stderr,
    )
    return forked_result


@pytest.mark.parametrize(
    "code",
    [
        "print('out'); import sys; print('err', file=sys.stderr)",
        "import sys; print(sys.argv, __name__, sys.stdin.read())",
        "raise SystemExit(7)",
        "raise SystemExit('a reason')",
        "raise ValueError('x')",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import atexit; atexit.register(print, 'first'); atexit.register(print, 'second')",
        "import atexit, os; print('x', flush=True); atexit.register(os._exit, 5)",
        "import threading; threading.Timer(0.05, print, ['late']).start()",
        "import signal; print([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)])",
        "import sys; print([path for path in sys.path if 'forking' in path], sys.path[0])",
        "import os; print(os.getcwd(), os.environ['WORD'], sorted(os.listdir('/proc/self/fd'))[:4])",
        "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdout.encoding, sys.stderr.errors)",
        "import logging; logging.warning('w'); import warnings; warnings.warn('deprecated', UserWarning, stacklevel=1)",
    ],
)
def test_forked_code_gives_the_same_result(code, tmp_path):
    env = {**os.environ, "WORD": "value", "PYTHONPATH": str(tmp_path)}
    run("-c", code, "an argument", env=env, cwd=tmp_path, input="text", start_new_session=True)


def test_keyboard_interrupt_ends_the_process_by_sigint():
    result = forking.run([PYTHON, "-c", "raise KeyboardInterrupt"], capture_output=True, text=True)
    assert result.returncode == -signal.SIGINT
    assert result.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_modules_and_scripts_import_their_own_files(tmp_path):
    (tmp_path / "mod.py").write_text("import sys, helper; print(sys.argv, __name__, helper.X)")
    (tmp_path / "helper.py").write_text("X = 5")
    assert "__main__ 5" in run("-u", "-m", "mod", "a", cwd=tmp_path).stdout
    assert "__main__ 5" in run(str(tmp_path / "mod.py"), "a", cwd="/").stdout
    (tmp_path / "helper.py").write_text("X = 'changed'")
    assert "__main__ changed" in run("-m", "mod", "a", cwd=tmp_path).stdout, (
        "no child has modules that another child imported"
    )


def test_libraries_are_imported_and_their_pools_work():
    code = "import sys; print('pandas' in sys.modules, 'leeway' in sys.modules); import pandas, pyarrow, duckdb\n"
    code += (
        "print(pandas.Series([1, 2]).sum(), duckdb.connect().execute('SELECT sum(range) FROM range(999)').fetchone())"
    )
    result = forking.run([PYTHON, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines() == ["True False", "3 (498501,)"], result.stderr


def test_code_under_test_is_imported_unless_other_files_are_found(tmp_path):
    code = "import sys; names = {*sys.modules}; import pipelines.errors; print('pipelines.errors' in names)"
    command = [PYTHON, "-c", f"{code}; print(pipelines.errors.__file__)"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = forking.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert result.stdout.split() == ["True", str(ROOT / "pipelines/errors.py")], result.stderr
    (tmp_path / "pipelines").mkdir()
    for name in ("__init__.py", "errors.py"):
        (tmp_path / "pipelines" / name).write_text("")
    result = forking.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert result.stdout.split() == ["False", str(tmp_path / "pipelines/errors.py")], result.stderr


def test_random_numbers_differ():
    code = "import random, numpy; print(random.random(), numpy.random.random())"
    first, second = (forking.run([PYTHON, "-c", code], capture_output=True, text=True).stdout.split() for _ in "ab")
    assert not {*first} & {*second}


def test_killed_child_keeps_its_pid_until_it_is_reaped():
    child = forking.Popen([PYTHON, "-c", SLEEP], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout
    assert int(child.stdout.readline()) == child.pid
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    while Path(f"/proc/{child.pid}/stat").read_text().split()[2] != "Z":  # no other process can get its number
        time.sleep(0.01)
    assert child.wait(10) == -signal.SIGKILL
    child.stdout.close()


def test_other_interpreters_options_and_variables_are_not_forked(tmp_path):
    code = "import sys; print('pandas' in sys.modules)"
    for command, env in (
        ([PYTHON, "-I", "-c", code], {}),
        ([PYTHON, "-c", code], {"OMP_NUM_THREADS": "3"}),
        (["/usr/bin/env", PYTHON, "-c", code], {}),
    ):
        assert forking.run(command, capture_output=True, text=True, env={**os.environ, **env}).stdout == "False\n"


# Tests of the executable that stands in for Python.


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a stand-in, and return its path."""
    return str(forking.write_stand_in(tmp_path_factory.mktemp("bin")))


@pytest.mark.parametrize("line", ["print('x')", "raise SystemExit(75)", "import os; os.kill(os.getpid(), 9)"])
def test_stand_in_ends_like_its_program(stand_in, tmp_path, line):
    (tmp_path / "program.py").write_text(line)
    real_result, forked_result = (
        subprocess.run([python, "-u", "program.py"], capture_output=True, text=True, cwd=tmp_path)
        for python in (PYTHON, stand_in)
    )
    assert (forked_result.returncode, forked_result.stdout, forked_result.stderr) == (
        real_result.returncode,
        real_result.stdout,
        real_result.stderr,
    )


def test_stand_in_is_sys_executable_of_its_program(stand_in, tmp_path):
    (tmp_path / "program.py").write_text("import sys; print(sys.executable, 'pandas' in sys.modules)")
    result = subprocess.run([stand_in, "program.py"], capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.split() == [stand_in, "True"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_program_ends_with_its_stand_in(stand_in, tmp_path, number, until):
    (tmp_path / "program.py").write_text(SLEEP)
    with subprocess.Popen([stand_in, "program.py"], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        assert pid != process.pid
        process.send_signal(number)
        assert process.wait(60) == -number
    until(lambda: not Path(f"/proc/{pid}").exists())
