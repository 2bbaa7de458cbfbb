"""Test StepHook: errors by exit code, streamed log log, and that no process outlives its task."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout
from leeway.hooks.step import hook as module
from leeway.hooks.step.hook import StepHook

from tests.tools.processes import is_alive

ROOT = Path(__file__).parents[5]


def test_returns_the_result_of_the_step(write_python, project, log):
    python = write_python("fields = spec(); result(spec=fields, step=sys.argv[4], cwd=os.getcwd())")
    result = StepHook(log, python).run("ingest", {"day": "2013-01-01", "n": 3})
    assert result == {
        "schema_version": 1,
        "spec": {"day": "2013-01-01", "n": 3},
        "step": "ingest",
        "cwd": str(project),
    }


@pytest.mark.parametrize(
    ("body", "error_type", "message"),
    [
        ("report(2, 'no such day.', 'Give another.')", AirflowFailException, "ingest: no such day. Give another."),
        ("report(75, 'MLflow is unreachable.')", AirflowException, "ingest: MLflow is unreachable."),
        ("report(1, 'KeyError in x.py:3.')", AirflowException, "ingest: KeyError in x.py:3."),
        ("sys.exit(2)", AirflowFailException, "exit code 2"),
        ("sys.exit(75)", AirflowException, "exit code 75"),
        ("sys.exit(1)", AirflowException, "exit code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", AirflowException, "SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", AirflowException, "SIGSEGV"),
        ("sys.exit(0)", AirflowException, "no result"),
        ("Path(value('--out')).write_text('{half'); sys.exit(75)", AirflowException, "exit code 75"),
        ("Path(value('--out')).write_text('[]'); sys.exit(75)", AirflowException, "exit code 75"),
        ("result(field='of another version'); sys.exit(2)", AirflowFailException, "exit code 2"),
        ("result(schema_version=99)", AirflowFailException, "version 99"),
    ],
)
def test_exit_code_decides_whether_the_task_is_retried(write_python, project, log, body, error_type, message):
    with pytest.raises(AirflowException, match=message) as error:
        StepHook(log, write_python(body)).run("ingest", {})
    assert type(error.value) is error_type
    assert "\n" not in str(error.value)


def test_missing_interpreter_is_named_and_not_retried(project, log):
    with pytest.raises(AirflowFailException, match="/no/such/python"):
        StepHook(log, "/no/such/python").run("ingest", {})


def test_missing_project_is_named(write_python, log, monkeypatch):
    monkeypatch.setenv("LEEWAY_PROJECT", "/no/such/project")
    with pytest.raises(AirflowFailException, match="/no/such/project"):
        StepHook(log, write_python("result()")).run("ingest", {})


def test_log_lines_are_streamed_while_the_step_runs(write_python, project, log, tmp_path):
    body = f"print('one'); sys.stdout.flush(); until(Path('{tmp_path}/logged').exists); print('two', file=sys.stderr); "
    log.on_line = lambda line: (tmp_path / "logged").touch() if line == "one" else None
    StepHook(log, write_python(body + "result()")).run("ingest", {})
    assert log.lines == ["one", "two"]


def test_errors_and_warnings_of_the_step_keep_their_levels(write_python, project, log):
    lines = ["I leeway: 3 rows", "W leeway: slow", "E leeway: lost", "error: no such day.", "Error rates", "E: x", "W"]
    StepHook(log, write_python(f"print(*{lines!r}, sep='\\n'); result()")).run("ingest", {})
    assert log.lines == lines
    assert log.levels == ["info", "warning", "error", "error", "info", "info", "info"]


def test_large_log_and_unread_spec_do_not_block_the_step(write_python, project, log):
    python = write_python("[print('x' * 99) for _ in range(40_000)]; result(ok=True)")
    assert StepHook(log, python).run("ingest", {"big": "y" * 2_000_000})["ok"]
    assert len(log.lines) == 40_000


def test_step_that_does_not_read_its_spec_reports_its_own_error(write_python, project, log):
    with pytest.raises(AirflowFailException, match="too early"):
        StepHook(log, write_python("os.close(0); report(2, 'too early')")).run("ingest", {"big": "y" * 2_000_000})


def test_bytes_that_are_no_text_do_not_stop_the_step(write_python, project, log):
    assert StepHook(log, write_python("os.write(1, b'\\xff\\xfe\\n'); result(ok=True)")).run("ingest", {})["ok"]


def test_given_environment_is_passed_and_overrides_the_own_one(write_python, project, log, monkeypatch):
    monkeypatch.setenv("SETTING", "airflow")
    monkeypatch.setenv("INHERITED", "yes")
    body = "result(**{name: os.environ.get(name) for name in ('SETTING', 'INHERITED', 'NUMBER')})"
    result = StepHook(log, write_python(body), {"SETTING": "step", "NUMBER": 3}).run("ingest", {})
    assert (result["SETTING"], result["INHERITED"], result["NUMBER"]) == ("step", "yes", "3")


PARENT = """
for n in range(2):
    subprocess.Popen([sys.executable, "-c", CHILD.format(n=n)])
until(lambda: all(Path(f"{folder}/child-{{n}}").exists() for n in range(2)))
print("ready"); sys.stdout.flush()
time.sleep(300)
"""
CHILD = """
import os, pathlib, signal, time
{setup}
pathlib.Path('{folder}/.child-{{n}}').write_text(str(os.getpid()))
os.rename('{folder}/.child-{{n}}', '{folder}/child-{{n}}')  # a rename is atomic: the file is complete
time.sleep(300)
"""


def write_parent(write_python, folder: Path, setup: str = "pass", parent: str = PARENT) -> str:
    """Write a step with two children, and return its interpreter. All three run `setup` first."""
    child = CHILD.format(folder=folder, setup=setup)
    return write_python(f"{setup}\nCHILD = {child!r}\n" + parent.format(folder=folder))


def read_pids(folder: Path) -> list[int]:
    """Return the process IDs of the children."""
    return [int(path.read_text()) for path in sorted(folder.glob("child-*"))]


@pytest.mark.parametrize("setup", ["pass", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_killed_task_ends_its_whole_process_group(write_python, project, log, tmp_path, until, monkeypatch, setup):
    monkeypatch.setattr(module, "KILL_AFTER_S", 0.3)
    hook = StepHook(log, write_parent(write_python, tmp_path, setup))
    errors = []

    def run() -> None:
        try:
            hook.run("ingest", {})
        except AirflowException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: "ready" in log.lines)
    children = read_pids(tmp_path)
    assert [is_alive(pid) for pid in children] == [True, True]
    hook.stop()
    thread.join(30)
    assert errors
    until(lambda: not any(is_alive(pid) for pid in children))
    hook.stop()  # a second call does nothing and raises nothing


def test_step_is_killed_earlier_than_airflow_kills_the_task():
    # Airflow's supervisor sends SIGKILL to the task 5 s after SIGTERM. After that nothing could kill the group.
    assert module.KILL_AFTER_S < 5


def test_timeout_of_the_task_ends_a_silent_step(write_python, project, log, tmp_path, until, monkeypatch):
    """Airflow raises the timeout inside `run`, and calls on_kill only afterwards."""
    monkeypatch.setattr(module, "KILL_AFTER_S", 0.3)

    def time_out(line: str) -> None:
        if line == "ready":
            raise AirflowTaskTimeout("too long")

    log.on_line = time_out
    with pytest.raises(AirflowTaskTimeout):
        StepHook(log, write_parent(write_python, tmp_path)).run("ingest", {})
    until(lambda: not any(is_alive(pid) for pid in read_pids(tmp_path)))


def test_task_of_a_killed_step_does_not_wait_for_its_children(write_python, project, log, tmp_path, until):
    """The children hold the stdout of the step open. A task must not hang until they end."""
    python = write_parent(
        write_python, tmp_path, parent=PARENT.replace("time.sleep(300)", "os.kill(os.getpid(), signal.SIGKILL)")
    )
    with pytest.raises(AirflowException, match="SIGKILL"):
        StepHook(log, python).run("ingest", {})
    until(lambda: not any(is_alive(pid) for pid in read_pids(tmp_path)))


def test_process_that_reuses_the_pid_of_a_reaped_step_is_not_killed(commands):
    """The kernel reuses a number only when no process of the group is left."""
    step, other = commands.start("true"), commands.start("sleep", "300")
    step.wait()
    pid, step.pid = step.pid, other.pid
    module._kill_remaining_processes(step)
    assert is_alive(other.pid)
    step.pid = pid


OPERATOR = """
import json, sys
from leeway.hooks.step.hook import StepHook

class Log:
    def info(self, event, *args, **kw):
        print(event % args, flush=True)
    warning = error = info

print(StepHook(Log(), sys.argv[1]).run("train", json.loads(sys.argv[2])))
"""


def test_sigkill_of_the_task_ends_the_step_and_its_children(commands, tmp_path, until):
    """The step is the real `train`, and its child a real training script. SIGKILL gives the task no chance to act."""
    package = tmp_path / "pipelines"
    script = f"""
        import os, pathlib, time
        pathlib.Path({str(tmp_path / "child-0")!r}).write_text(str(os.getpid()))
        time.sleep(300)
        """
    copy_pipelines(package, textwrap.dedent(script))
    for split in ("train", "validation"):
        (tmp_path / "features" / split).mkdir(parents=True)
        pyarrow.parquet.write_table(pa.table({"row": [1]}), tmp_path / "features" / split / "data.parquet")
    env = {"LEEWAY_PROJECT": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{ROOT / 'plugins'}"}
    spec = json.dumps({"dataset": "flights", "features": str(tmp_path / "features")})
    task = commands.start(sys.executable, "-c", OPERATOR, sys.executable, spec, env=env)
    until((tmp_path / "child-0").exists)
    until(lambda: (tmp_path / "child-0").stat().st_size)
    child = psutil.Process(*read_pids(tmp_path))
    step = child.parent()
    assert step is not None
    assert step.parent().pid == task.pid
    assert os.getpgid(step.pid) != os.getpgid(task.pid)
    task.send_signal(signal.SIGKILL)
    until(lambda: not is_alive(child.pid) and not is_alive(step.pid))


def copy_pipelines(package: Path, script: str) -> None:
    """Copy the package pipelines with another training script of the flights."""
    subprocess.run(["cp", "-r", str(ROOT / "pipelines"), str(package)], check=True)
    (package / "datasets" / "flights" / "training.py").write_text(script)
