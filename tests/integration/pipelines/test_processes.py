"""Steps as processes: started by a person or an operator, stopped, and abandoned."""

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
"""No machine is so fast that it is over before a signal comes."""
TRAIN = (sys.executable, "-m", "pipelines", "train", "--hyperparameters", json.dumps(ENDLESS))

OPERATOR = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], env={**os.environ, "LEEWAY_PARENT": str(os.getpid())}, start_new_session=True)
print(child.pid, flush=True)
sys.exit(child.wait())
"""


@pytest.fixture
def features(home: Path, trained: SimpleNamespace) -> None:
    shutil.copytree(trained.data / "features", "data/features")


@pytest.fixture
def training(features: None, home: Path, until: Callable[..., Any]) -> Callable[[], object]:
    """Returns once a training has left a checkpoint."""
    return lambda: until(lambda: list(home.glob("training/*/checkpoints/[0-9]*")))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[IO[str]]:
    """Takes what a training says of its rounds: a pipe that nobody reads would fill, and hold it up."""
    with (tmp_path / "log").open("w+") as file:
        yield file


def said(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


def test_a_step_ends_with_its_operator_be_it_by_kill_9(
    training: Callable[[], object], commands: Any, until: Callable[..., Any], log: IO[str]
) -> None:
    operator = commands.start(sys.executable, "-c", OPERATOR, *TRAIN, stderr=log, is_real=True)
    step = int(operator.stdout.readline())
    training()
    assert len(commands.members(step)) == 2, "the step and the script"
    operator.send_signal(signal.SIGKILL)
    operator.wait()
    until(lambda: not commands.members(step))


def test_without_an_operator_a_step_is_on_its_own(
    training: Callable[[], object], commands: Any, until: Callable[..., Any], log: IO[str]
) -> None:
    """The negative control: what is not said to be an operator's outlives the one that started it."""
    code = OPERATOR.replace('"LEEWAY_PARENT"', '"NOBODY"')
    shell = commands.start(sys.executable, "-c", code, *TRAIN, stderr=log, is_real=True)
    step = int(shell.stdout.readline())
    training()
    shell.send_signal(signal.SIGKILL)
    shell.wait()
    assert len(commands.members(step)) == 2
    os.killpg(step, signal.SIGKILL)
    until(lambda: not commands.members(step))


def test_an_operator_that_is_dead_already(features: None, commands: Any, home: Path) -> None:
    """It died between starting the step and the step's first line."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    done = commands.run(*TRAIN, env={"LEEWAY_PARENT": str(gone.pid)}, is_real=True)
    assert done.code == 128 + signal.SIGTERM
    assert not list(home.glob("training/*"))


def test_sigterm_of_an_operators_step_takes_the_script_along(
    training: Callable[[], object], commands: Any, until: Callable[..., Any], log: IO[str]
) -> None:
    child = commands.start(*TRAIN, env={"LEEWAY_PARENT": str(os.getpid())}, stderr=log, is_real=True)
    training()
    child.terminate()
    child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    until(lambda: not commands.members(child.pid))
    assert "Traceback" not in said(log)
    assert not Path("data/model").exists()


def test_ctrl_c_is_quiet_and_leaves_nothing_running(
    training: Callable[[], object], commands: Any, until: Callable[..., Any], log: IO[str]
) -> None:
    child = commands.start(*TRAIN, stderr=log, is_real=True)
    training()
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert out == ""
    assert "Traceback" not in said(log)
    until(lambda: not commands.members(child.pid))


def test_sigterm_of_a_step_that_waits_for_nothing(commands: Any, home: Path, until: Callable[..., Any]) -> None:
    child = commands.start(
        sys.executable, "-m", "pipelines", "backfill", "--first", "2013-01-01", "--last", "2013-12-31", is_real=True
    )
    until((home / "validation/flights/2013-01-02.json").exists)
    child.terminate()
    _, err = child.communicate(timeout=60)
    assert child.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)
    assert "Traceback" not in err
    done = commands.step("backfill", "--first", "2013-01-01", "--last", "2013-01-04")
    assert done.code == 0, done.err
    assert json.loads(done.out)["published"] + json.loads(done.out)["skipped"] == 4
