"""StepHook: what an exit code becomes, where the lines go, and that nothing outlives its task."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psutil
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout
from leeway.hooks.step import hook as module
from leeway.hooks.step.hook import StepHook

ROOT = Path(__file__).parents[5]


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_result_of_a_step_that_is_done(stub, project, lines):
    python = stub("given = spec(); result(told=given, step=sys.argv[4], cwd=os.getcwd())")
    told = StepHook(lines, python).run("ingest", {"day": "2013-01-01", "n": 3})
    assert told == {
        "schema_version": 1,
        "told": {"day": "2013-01-01", "n": 3},
        "step": "ingest",
        "cwd": str(project),
    }


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        ("report(2, 'no such day.', 'Take another.')", AirflowFailException, "ingest: no such day. Take another."),
        ("report(75, 'MLflow is away.')", AirflowException, "ingest: MLflow is away."),
        ("report(1, 'KeyError in x.py:3.')", AirflowException, "ingest: KeyError in x.py:3."),
        ("sys.exit(2)", AirflowFailException, "exit code 2"),
        ("sys.exit(75)", AirflowException, "exit code 75"),
        ("sys.exit(1)", AirflowException, "exit code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", AirflowException, "SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", AirflowException, "SIGSEGV"),
        ("sys.exit(0)", AirflowException, "no result"),
        ("Path(value('--out')).write_text('{half'); sys.exit(75)", AirflowException, "exit code 75"),
        ("Path(value('--out')).write_text('[]'); sys.exit(75)", AirflowException, "exit code 75"),
        ("result(of='another version'); sys.exit(2)", AirflowFailException, "exit code 2"),
        ("result(schema_version=99)", AirflowFailException, "version 99"),
    ],
)
def test_exit_codes_and_what_becomes_of_them(stub, project, lines, body, error, words):
    with pytest.raises(AirflowException, match=words) as raised:
        StepHook(lines, stub(body)).run("ingest", {})
    assert type(raised.value) is error
    assert "\n" not in str(raised.value)


def test_interpreter_that_is_not_there_is_named_and_not_tried_again(project, lines):
    with pytest.raises(AirflowFailException, match="/no/such/python"):
        StepHook(lines, "/no/such/python").run("ingest", {})


def test_project_that_is_not_there_is_named(stub, lines, monkeypatch):
    monkeypatch.setenv("LEEWAY_PROJECT", "/no/such/project")
    with pytest.raises(AirflowFailException, match="/no/such/project"):
        StepHook(lines, stub("result()")).run("ingest", {})


def test_lines_are_streamed_while_the_step_runs(stub, project, lines, tmp_path):
    body = f"print('one'); sys.stdout.flush(); until(Path('{tmp_path}/heard').exists); print('two', file=sys.stderr); "
    lines.heard = lambda line: (tmp_path / "heard").touch() if line == "one" else None
    StepHook(lines, stub(body + "result()")).run("ingest", {})
    assert lines.lines == ["one", "two"]


def test_megabytes_of_log_and_a_spec_that_nobody_reads_do_not_block(stub, project, lines):
    python = stub("[print('x' * 99) for _ in range(40_000)]; result(ok=True)")
    assert StepHook(lines, python).run("ingest", {"big": "y" * 2_000_000})["ok"]
    assert len(lines.lines) == 40_000


def test_step_that_ends_without_reading_its_spec_tells_its_own_error(stub, project, lines):
    with pytest.raises(AirflowFailException, match="too early"):
        StepHook(lines, stub("os.close(0); report(2, 'too early')")).run("ingest", {"big": "y" * 2_000_000})


def test_bytes_that_are_no_text_do_not_end_the_step(stub, project, lines):
    assert StepHook(lines, stub("os.write(1, b'\\xff\\xfe\\n'); result(ok=True)")).run("ingest", {})["ok"]


def test_more_environment_is_passed_and_wins(stub, project, lines, monkeypatch):
    monkeypatch.setenv("WHOSE", "airflow's")
    monkeypatch.setenv("KEPT", "yes")
    body = "result(**{name: os.environ.get(name) for name in ('WHOSE', 'KEPT', 'NUMBER')})"
    told = StepHook(lines, stub(body), {"WHOSE": "the step's", "NUMBER": 3}).run("ingest", {})
    assert (told["WHOSE"], told["KEPT"], told["NUMBER"]) == ("the step's", "yes", "3")


FAMILY = """
for _ in range(2):
    subprocess.Popen([sys.executable, "-c", CHILD.format(n=_)])
until(lambda: all(Path(f"{folder}/child-{{n}}").exists() for n in range(2)))
print("ready"); sys.stdout.flush()
time.sleep(300)
"""
CHILD = """
import os, pathlib, signal, time
{more}
pathlib.Path('{folder}/.child-{{n}}').write_text(str(os.getpid()))
os.rename('{folder}/.child-{{n}}', '{folder}/child-{{n}}')  # there, it is whole
time.sleep(300)
"""


def family(stub, folder: Path, more: str = "pass", after: str = FAMILY) -> str:
    """A step with two children that do as `more` says, and so does the step itself."""
    child = CHILD.format(folder=folder, more=more)
    return stub(f"{more}\nCHILD = {child!r}\n" + after.format(folder=folder))


def pids(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in sorted(folder.glob("child-*"))]


@pytest.mark.parametrize("more", ["pass", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_killed_task_takes_the_whole_group_along(stub, project, lines, tmp_path, until, monkeypatch, more):
    monkeypatch.setattr(module, "KILL_AFTER_S", 0.3)
    hook = StepHook(lines, family(stub, tmp_path, more))
    ended = []

    def run() -> None:
        try:
            hook.run("ingest", {})
        except AirflowException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: "ready" in lines.lines)
    children = pids(tmp_path)
    assert [alive(pid) for pid in children] == [True, True]
    hook.kill()
    thread.join(30)
    assert ended
    until(lambda: not any(alive(pid) for pid in children))
    hook.kill()  # again: nothing to do, nothing raised


def test_grace_is_shorter_than_airflows_own():
    # Airflow's supervisor sends SIGKILL 5 s after SIGTERM: the group must be dead by then, or nobody kills it.
    assert module.KILL_AFTER_S < 5


def test_time_out_of_the_task_ends_a_silent_step(stub, project, lines, tmp_path, until, monkeypatch):
    """Airflow raises it in the middle of `run`, and calls on_kill only afterwards."""
    monkeypatch.setattr(module, "KILL_AFTER_S", 0.3)

    def time_out(line: str) -> None:
        if line == "ready":
            raise AirflowTaskTimeout("too long")

    lines.heard = time_out
    with pytest.raises(AirflowTaskTimeout):
        StepHook(lines, family(stub, tmp_path)).run("ingest", {})
    until(lambda: not any(alive(pid) for pid in pids(tmp_path)))


def test_step_that_dies_does_not_wait_for_its_children(stub, project, lines, tmp_path, until):
    """They hold its stdout open: a step killed for want of memory must not hang its task until they end."""
    python = family(stub, tmp_path, after=FAMILY.replace("time.sleep(300)", "os.kill(os.getpid(), signal.SIGKILL)"))
    with pytest.raises(AirflowException, match="SIGKILL"):
        StepHook(lines, python).run("ingest", {})
    until(lambda: not any(alive(pid) for pid in pids(tmp_path)))


def test_number_of_a_reaped_step_that_is_another_s_by_now_is_left_alone(commands):
    """The kernel gives it away once the group is gone; what the step left behind holds it, and is ended: see above."""
    step, other = commands.start("true"), commands.start("sleep", "300")
    step.wait()
    own, step.pid = step.pid, other.pid
    module._end_group(step)
    assert alive(other.pid)
    step.pid = own


OPERATOR = """
import json, sys
from leeway.hooks.step.hook import StepHook

class Log:
    def info(self, event, *args, **kw):
        print(event % args, flush=True)
    warning = info

print(StepHook(Log(), sys.argv[1]).run("train", json.loads(sys.argv[2])))
"""


def test_kill_9_of_the_task_ends_the_step_and_its_children(commands, tmp_path, until):
    """A real step (`train`) with a real child (the training script), whose task is killed without a word."""
    package = tmp_path / "pipelines"
    script = f"""
        import os, pathlib, time
        pathlib.Path({str(tmp_path / "child-0")!r}).write_text(str(os.getpid()))
        time.sleep(300)
        """
    _copy_with_training(package, textwrap.dedent(script))
    for split in ("train", "validation"):
        (tmp_path / "features" / split).mkdir(parents=True)
        (tmp_path / "features" / split / "data.parquet").write_bytes(b"rows")
    env = {"LEEWAY_PROJECT": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{ROOT / 'plugins'}"}
    spec = json.dumps({"features": str(tmp_path / "features")})
    task = commands.start(sys.executable, "-c", OPERATOR, sys.executable, spec, env=env)
    until((tmp_path / "child-0").exists)
    until(lambda: (tmp_path / "child-0").stat().st_size)
    child = psutil.Process(*pids(tmp_path))
    step = child.parent()
    assert step is not None
    assert step.parent().pid == task.pid
    assert os.getpgid(step.pid) != os.getpgid(task.pid)
    task.send_signal(signal.SIGKILL)
    until(lambda: not alive(child.pid) and not alive(step.pid))


def _copy_with_training(package: Path, script: str) -> None:
    subprocess.run(["cp", "-r", str(ROOT / "pipelines"), str(package)], check=True)
    (package / "datasets" / "flights" / "training.py").write_text(script)
