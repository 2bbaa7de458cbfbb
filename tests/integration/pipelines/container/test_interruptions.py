"""A training that is interrupted however often, however rudely, ends with the bytes of one that was not."""

import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from pipelines.system.files import sha256

ROOT = Path(__file__).parents[4]
GIVEN = {"num_round": 120, "early_stopping_rounds": 120, "eta": 0.05, "nthread": 2, "checkpoint_s": 0}
PIPE_BYTES = 4_096
AHEAD = 2 * PIPE_BYTES // 130 + 1
"""Lines of a round: those in the pipe, and those that a reader's buffer took with the one that was wanted."""
ENDLESS = {"num_round": 100_000, "early_stopping_rounds": 100_000, "eta": 0.001}


class Job:
    """The script as a training job runs it: each start finds its folders empty, and the checkpoints come back."""

    def __init__(self, base: Path, features: Path, commands: Any) -> None:
        self.base, self.features, self.commands = base, features, commands
        self.checkpoints = base / "checkpoints"

    def start(self, given: dict[str, Any], is_real: bool = False) -> Any:
        shutil.rmtree(self.base / "model", ignore_errors=True)
        shutil.rmtree(self.base / "output", ignore_errors=True)
        env = {
            "SAGEMAKER_BASE_DIR": str(self.base),
            "SM_CHANNEL_TRAIN": str(self.features / "train"),
            "SM_CHANNEL_VALIDATION": str(self.features / "validation"),
            "TRAINING_JOB_NAME": "job",
        }
        told = [part for name, value in given.items() for part in (f"--{name}", str(value))]
        script = str(ROOT / "pipelines/datasets/flights/training.py")
        return self.commands.start(
            sys.executable, "-u", script, *told, env=env, stderr=subprocess.STDOUT, is_real=is_real
        )

    def run(self, given: dict[str, Any]) -> str:
        """What it said; it ended well."""
        child = self.start(given)
        said, _ = child.communicate(timeout=300)
        assert child.returncode == 0, said
        return str(said)

    def made(self) -> dict[str, str]:
        """Digests of all it left that is no time."""
        record = self.base / "output/data"
        files = {name: sha256(record / name) for name in ("rounds.csv", "params.json", "environment.json")}
        return {"model": sha256(self.base / "model"), **files}


@pytest.fixture
def new_job(tmp_path: Path, commands: Any, trained: SimpleNamespace) -> Callable[[str], Job]:
    def new(name: str) -> Job:
        shutil.copytree(trained.data / "features", tmp_path / name / "features")
        return Job(tmp_path / name, tmp_path / name / "features", commands)

    return new


def restored(said: str) -> int:
    """The rounds of the checkpoint that a run went on from; 0 after a cold start."""
    found = re.findall(r"^checkpoint restored: (?:none|name=(\d{6}) saved_at=\S+\+00:00)$", said, re.MULTILINE)
    assert len(found) == 1, said[-2_000:]
    return int(found[0] or 0)


def rounds_in(said: str) -> int:
    """The rounds that were done when it ended, as the log tells."""
    return max([restored(said), *(int(one) + 1 for one in re.findall(r"^\[(\d+)\]\ttrain", said, re.MULTILINE))])


def until_line(child: Any, start: str) -> str:
    """What the script said up to a line that starts so."""
    said = ""
    for line in child.stdout:
        said += str(line)
        if line.startswith(start):
            return said
    raise AssertionError(f"it ended before {start!r}: {said[-2_000:]}")


def held_back(child: Any) -> Any:
    """The script gets no further than AHEAD rounds beyond what is read of its log: it waits for room in the pipe.

    However late a signal comes on a busy machine, the training is not over.
    """
    if sys.platform == "linux":
        fcntl.fcntl(child.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return child


def interrupted(child: Any, number: int) -> str:
    """All that the script still said after that signal; it ended by it."""
    child.send_signal(number)
    said = str(child.stdout.read())
    assert child.wait() in ((-number,) if number == signal.SIGKILL else (-number, 128 + number)), said
    assert "Traceback" not in said or child.returncode < 0
    return said


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_kills_and_stops_at_random_moments_change_no_byte(new_job: Callable[[str], Job], seed: int) -> None:
    """With a checkpoint after each round a kill costs a round at most, and a stop nothing."""
    whole, job, chance = new_job("whole"), new_job("interrupted"), random.Random(seed)
    given = GIVEN | {"num_round": 250, "early_stopping_rounds": 250}
    assert restored(whole.run(given | {"checkpoint_s": 1_000})) == 0
    done = 0
    for n in range(5):
        if n > 1 and done + 15 + AHEAD > given["num_round"]:
            break  # this machine was so slow to interrupt it that the next one might come too late
        number = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        child = held_back(job.start(given))
        said = until_line(child, f"[{done + chance.randrange(15)}]\t")
        time.sleep(chance.random() * 0.02)  # the moment of the interruption is the test's subject
        said += interrupted(child, number)
        assert restored(said) == done
        done = rounds_in(said)
        names = sorted(path.name for path in job.checkpoints.iterdir())
        assert int(names[-1]) == done or (number == signal.SIGKILL and int(names[-1]) == done - 1)
        done = int(names[-1])
        assert not (job.base / "model").exists()
    assert restored(job.run(given)) == done
    differing = {name for name, digest in job.made().items() if whole.made()[name] != digest}
    assert differing == {"params.json"}, "they name the interval"


@pytest.mark.parametrize("kills", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_kills_while_it_saves_on_a_timer(new_job: Callable[[str], Job], kills: int) -> None:
    """Killed again and again within a tenth of a second, and with only one checkpoint kept, it gets on all the same."""
    whole, job, chance = new_job("whole"), new_job("interrupted"), random.Random(20)
    given = GIVEN | {"num_round": 800, "early_stopping_rounds": 800, "checkpoint_s": 0.02, "keep_checkpoints": 1}
    unhurried = given | {"checkpoint_s": 1_000}  # what is not killed need not save, and takes half the time
    whole.run(unhurried)
    done = 0
    for n in range(kills):
        had = set(job.checkpoints.glob("[0-9]*"))  # not the probe that the script puts there for a moment
        child = held_back(job.start(given))
        said = until_line(child, "checkpoint restored")
        while n % 2 and set(job.checkpoints.glob("[0-9]*")) <= had and child.poll() is None:
            said += child.stdout.readline()  # every other kill finds a new one, however slow the machine is
        time.sleep(chance.random() * 0.1)
        said += interrupted(child, signal.SIGKILL)
        assert restored(said) >= done
        done = restored(said)
    assert restored(job.run(unhurried)) >= done
    assert done > 0, "no kill came after a checkpoint"
    assert job.made() == whole.made()


@pytest.mark.parametrize("stops", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_stopped_before_the_first_round(new_job: Callable[[str], Job], stops: int) -> None:
    """While Python imports, or reads the data: nothing is lost, nothing is left."""
    job, chance = new_job("job"), random.Random(4)
    for _ in range(stops):
        child = job.start(GIVEN | ENDLESS, is_real=True)
        time.sleep(chance.random() * 2)
        interrupted(child, signal.SIGTERM)
        assert not (job.base / "model").exists()
        assert not (job.base / "output/failure").exists(), "an interruption is no failure of the script"


def test_a_second_signal_does_no_harm(new_job: Callable[[str], Job]) -> None:
    job = new_job("job")
    child = job.start(GIVEN | ENDLESS)
    said = until_line(child, "[3]\t")
    child.send_signal(signal.SIGTERM)
    said += interrupted(child, signal.SIGTERM)
    assert child.returncode == 128 + signal.SIGTERM
    assert max(path.name for path in job.checkpoints.iterdir()) == f"{rounds_in(said):06d}"


@pytest.mark.parametrize("changed", ["eta", "data"])
def test_of_other_hyperparameters_or_data_none_is_taken(new_job: Callable[[str], Job], changed: str) -> None:
    job, fresh, given = new_job("job"), new_job("fresh"), GIVEN | {"num_round": 20}
    job.run(given)
    if changed == "eta":
        given |= {"eta": 0.3}
    else:
        for one in (job, fresh):
            shutil.copy2(one.features / "validation/data.parquet", one.features / "train/data.parquet")
    said = job.run(given)
    assert restored(said) == 0
    assert "checkpoint 000020 belongs to other hyperparameters or other data; trying the one before" in said
    fresh.run(given)
    assert job.made() == fresh.made()


def test_how_often_is_no_other_training(new_job: Callable[[str], Job]) -> None:
    """The negative control: what does not change the model may change between two runs."""
    job = new_job("job")
    job.run(GIVEN | {"num_round": 20})
    assert restored(job.run(GIVEN | {"num_round": 20, "checkpoint_s": 7, "keep_checkpoints": 5})) == 20


def test_the_timer_alone_and_the_rounds_beside_it(new_job: Callable[[str], Job]) -> None:
    job, given = new_job("job"), GIVEN | {"num_round": 25, "keep_checkpoints": 50, "checkpoint_s": 1_000}
    job.run(given)
    assert [path.name for path in job.checkpoints.iterdir()] == ["000025"], "the end is always kept"
    shutil.rmtree(job.checkpoints)
    job.run(given | {"checkpoint_rounds": 10})
    assert sorted(path.name for path in job.checkpoints.iterdir()) == ["000010", "000020", "000025"]
    shutil.rmtree(job.checkpoints)
    job.run(given | {"checkpoint_s": 0})
    assert len(list(job.checkpoints.iterdir())) == 25


def test_another_xgboost_is_told(new_job: Callable[[str], Job]) -> None:
    job, given = new_job("job"), GIVEN | {"num_round": 10}
    assert "may differ" not in job.run(given)
    path = job.checkpoints / "000010"
    content = path.read_bytes()[:-64].replace(b'"xgboost": "', b'"xgboost": "1.', 1)
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
    said = job.run(given)
    assert restored(said) == 10
    assert re.search(r"the checkpoint is of xgboost 1\.\S+, this is .*: the model may differ", said)


def test_each_round_is_in_the_record_once(new_job: Callable[[str], Job]) -> None:
    job = new_job("job")
    child = held_back(job.start(GIVEN))
    until_line(child, "[30]\t")
    interrupted(child, signal.SIGKILL)
    job.run(GIVEN)
    assert list(pd.read_csv(job.base / "output/data/rounds.csv")["round"]) == list(range(120))


def test_foreign_files_among_the_checkpoints(new_job: Callable[[str], Job]) -> None:
    job, given = new_job("job"), GIVEN | {"num_round": 20}
    job.run(given)
    (job.checkpoints / "000999").write_text("foreign")
    (job.checkpoints / "notes").mkdir()
    said = job.run(given)
    assert restored(said) == 20
    assert "checkpoint 000999 cannot be read as a checkpoint; trying the one before" in said
    assert (job.checkpoints / "000999").read_text() == "foreign"
    assert (job.checkpoints / "notes").is_dir()


def test_a_checkpoint_folder_that_cannot_be_is_a_line(new_job: Callable[[str], Job]) -> None:
    job = new_job("job")
    job.checkpoints.write_text("a file in its place")
    child = job.start(GIVEN)
    said, _ = child.communicate(timeout=100)
    assert child.returncode == 1
    assert "Traceback" not in said
    assert "FileExistsError" in (job.base / "output/failure").read_text()


# The laptop's door: `python -m pipelines train` passes on what it is told


@pytest.fixture
def step(commands: Any, trained: SimpleNamespace, home: Path, until: Callable[..., Any]) -> Callable[[], Any]:
    """A training as a step, in the middle of its rounds."""
    shutil.copytree(trained.data / "features", "data/features")

    def start() -> Any:
        given = json.dumps(ENDLESS | {"checkpoint_s": 1_000, "checkpoint_rounds": 10_000})
        log = (home.parent / "step.log").open("w")
        child = commands.start(sys.executable, "-m", "pipelines", "train", "--hyperparameters", given, stderr=log)
        until(lambda: "[5]\t" in (home.parent / "step.log").read_text())
        assert not list(home.glob("training/*/checkpoints/[0-9]*"))
        return child

    return start


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_step_that_is_stopped_has_the_script_save_first(
    step: Callable[[], Any], commands: Any, home: Path, number: int, code: int
) -> None:
    child = step()
    child.send_signal(number)  # to the step alone
    out, _ = child.communicate(timeout=60)
    said = (home.parent / "step.log").read_text()
    assert child.returncode == code, said[-2_000:]
    assert out == ""
    assert not commands.members(child.pid), "the script has ended before it"
    assert [path.name for path in home.glob("training/*/checkpoints/[0-9]*")] == [f"{rounds_in(said):06d}"]
    assert "stopped; the last checkpoint is saved" in said


def test_a_whole_group_that_is_stopped_saves_too(step: Callable[[], Any], commands: Any, home: Path) -> None:
    """Ctrl-C in a terminal: the script hears it twice."""
    child = step()
    os.killpg(child.pid, signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130
    assert len(list(home.glob("training/*/checkpoints/[0-9]*"))) == 1
    assert "Traceback" not in (home.parent / "step.log").read_text()


# The example of the documentation


@pytest.fixture
def example(tmp_path: Path) -> Path:
    text = (ROOT / "docs/how-to/training-script.md").read_text()
    script = tmp_path / "example.py"
    script.write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
    (tmp_path / "ml/input/data/train").mkdir(parents=True)
    (tmp_path / "ml/input/data/train/data.json").write_text("[[1, 2], [2, 4.5], [3, 5.5]]")
    return script


def test_the_documented_script_goes_on_after_a_stop(example: Path, commands: Any, tmp_path: Path) -> None:
    env = {"SAGEMAKER_BASE_DIR": str(tmp_path / "ml")}
    model = tmp_path / "ml/model/model.json"
    command = (sys.executable, str(example))
    done = commands.run(*command, env=env)
    assert done.out == "checkpoint restored: none\n", done.err
    whole = model.read_bytes()
    model.unlink()
    seen: list[int] = []
    while not any(seen):  # who was stopped before its first step had nothing to save: the next one begins anew
        child = commands.start(*command, env={**env, "slow": "0.05"})  # 20 s: not over before the signal
        said = until_line(child, "checkpoint restored")
        seen.append(restored(said))
        time.sleep(0.2)
        interrupted(child, signal.SIGTERM)
        assert child.returncode == 143
        assert not model.exists()
        assert len(seen) < 10, "a stop saves"
    assert seen[0] == 0
    last = commands.run(*command, env=env)
    assert last.code == 0
    assert restored(last.out) > 0
    assert model.read_bytes() == whole
