"""Test steps as processes: how they end with the operator that started them, by a signal, and by Ctrl-C."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

ENDLESS = {"num_round": 100_000, "early_stopping_rounds": 100_000, "checkpoint_rounds": 10, "eta": 0.001}
"""A training that no machine finishes before a test sends its signal."""
TRAIN = (sys.executable, "-m", "pipelines", "train", "--hyperparameters", json.dumps(ENDLESS))

OPERATOR = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], env={**os.environ, "LEEWAY_PARENT": str(os.getpid())}, start_new_session=True)
print(child.pid, flush=True)
sys.exit(child.wait())
"""


@pytest.fixture
def put_features(home: Path, trained: SimpleNamespace) -> None:
    """Copy features into the working directory."""
    shutil.copytree(trained.data / "features", "data/features")


@pytest.fixture
def wait_for_checkpoint(put_features: None, home: Path, until: Callable[..., Any]) -> Callable[[], object]:
    """Return the function that waits until a training has written a checkpoint."""
    return lambda: until(lambda: list(home.glob("training/*/checkpoints/[0-9]*")))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[IO[str]]:
    """Return a file for the messages of a training. A full pipe that nobody reads would block the training."""
    with (tmp_path / "log").open("w+") as file:
        yield file


def read_log(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


def test_a_step_ends_when_its_operator_is_killed(
    wait_for_checkpoint: Callable[[], object], commands: Any, until: Callable[..., Any], log: IO[str]
) -> None:
    operator = commands.start(sys.executable, "-c", OPERATOR, *TRAIN, stderr=log, is_real=True)
    step = int(operator.stdout.readline())
    wait_for_checkpoint()
    assert len(commands.list_members(step)) == 2, "the group has two processes: the step and the training script"
    operator.send_signal(signal.SIGKILL)
    operator.wait()
    until(lambda: not commands.list_members(step))


@pytest.mark.soak
def test_a_step_without_an_operator_outlives_its_parent(
    wait_for_checkpoint: Callable[[], object], commands: Any, until: Callable[..., Any], log: IO[str]
) -> None:
    """This is the negative control: LEEWAY_PARENT is not set."""
    code = OPERATOR.replace('"LEEWAY_PARENT"', '"NOBODY"')
    shell = commands.start(sys.executable, "-c", code, *TRAIN, stderr=log, is_real=True)
    step = int(shell.stdout.readline())
    wait_for_checkpoint()
    shell.send_signal(signal.SIGKILL)
    shell.wait()
    assert len(commands.list_members(step)) == 2
    os.killpg(step, signal.SIGKILL)
    until(lambda: not commands.list_members(step))


def test_a_step_does_nothing_if_its_operator_is_dead_already(put_features: None, commands: Any, home: Path) -> None:
    """The operator ended after it started the step, and before the step's first line ran."""
    operator = subprocess.Popen([sys.executable, "-c", ""])
    operator.wait()
    result = commands.run(*TRAIN, env={"LEEWAY_PARENT": str(operator.pid)}, is_real=True)
    assert result.code == 128 + signal.SIGTERM
    assert not list(home.glob("training/*"))


def test_sigterm_to_an_operators_step_ends_the_training_script(
    wait_for_checkpoint: Callable[[], object], commands: Any, until: Callable[..., Any], log: IO[str]
) -> None:
    child = commands.start(*TRAIN, env={"LEEWAY_PARENT": str(os.getpid())}, stderr=log, is_real=True)
    wait_for_checkpoint()
    child.terminate()
    child.communicate(timeout=180)
    assert child.returncode == 128 + signal.SIGTERM
    until(lambda: not commands.list_members(child.pid))
    assert "Traceback" not in read_log(log)
    assert not Path("data/model").exists()


def test_ctrl_c_prints_no_traceback_and_leaves_no_process(
    wait_for_checkpoint: Callable[[], object], commands: Any, until: Callable[..., Any], log: IO[str]
) -> None:
    child = commands.start(*TRAIN, stderr=log, is_real=True)
    wait_for_checkpoint()
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    out, _ = child.communicate(timeout=180)
    assert child.returncode == 130
    assert out == ""
    assert "Traceback" not in read_log(log)
    until(lambda: not commands.list_members(child.pid))


@pytest.mark.soak
def test_sigterm_ends_a_backfill_that_then_resumes(commands: Any, home: Path, until: Callable[..., Any]) -> None:
    child = commands.start(
        sys.executable,
        "-m",
        "pipelines",
        "backfill",
        "--dataset",
        "flights",
        "--first",
        "2013-01-01",
        "--last",
        "2013-12-31",
        is_real=True,
    )
    until((home / "validation/flights/2013-01-02.json").exists)
    child.terminate()
    _, err = child.communicate(timeout=180)
    assert child.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)
    assert "Traceback" not in err
    result = commands.run_step("backfill", "--dataset", "flights", "--first", "2013-01-01", "--last", "2013-01-04")
    assert result.code == 0, result.err
    assert json.loads(result.out)["published"] + json.loads(result.out)["skipped"] == 4
