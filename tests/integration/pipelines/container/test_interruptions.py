"""Test that a training ends with the same bytes, however often and at whatever moment it is interrupted."""

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
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.feature_files import METADATA_KEY
from pipelines.system.files import sha256

ROOT = Path(__file__).parents[4]
HYPERPARAMETERS = {
    **{"num_round": 120, "early_stopping_rounds": 120, "eta": 0.05, "nthread": 2, "checkpoint_s": 0},
    "verbose_eval": 1,
}
PIPE_BYTES = 4_096
BUFFERED_ROUNDS = 2 * PIPE_BYTES // 130 + 1
"""Number of rounds whose lines, of about 130 bytes, fit into the pipe and into the reader's buffer."""
ENDLESS = {"num_round": 100_000, "early_stopping_rounds": 100_000, "eta": 0.001, "verbose_eval": 1}


class Job:
    """Run the script as a training job does: at each start, all folders but that of the checkpoints are empty."""

    def __init__(self, base: Path, features: Path, commands: Any) -> None:
        self.base, self.features, self.commands = base, features, commands
        self.checkpoints = base / "checkpoints"

    def start(self, hyperparameters: dict[str, Any], is_real: bool = False) -> Any:
        shutil.rmtree(self.base / "model", ignore_errors=True)
        shutil.rmtree(self.base / "output", ignore_errors=True)
        env = {
            "SAGEMAKER_BASE_DIR": str(self.base),
            "SM_CHANNEL_TRAIN": str(self.features / "train"),
            "SM_CHANNEL_VALIDATION": str(self.features / "validation"),
            "TRAINING_JOB_NAME": "job",
        }
        arguments = [argument for name, value in hyperparameters.items() for argument in (f"--{name}", str(value))]
        script = str(ROOT / "pipelines/defaults/training.py")
        return self.commands.start(
            sys.executable, "-u", script, *arguments, env=env, stderr=subprocess.STDOUT, is_real=is_real
        )

    def run(self, hyperparameters: dict[str, Any]) -> str:
        """Run the script to its end without an error, and return its log."""
        process = self.start(hyperparameters)
        log, _ = process.communicate(timeout=300)
        assert process.returncode == 0, log
        return str(log)

    def compute_digests(self) -> dict[str, str]:
        """Return the digests of the files that the script wrote, except the files that contain times."""
        record = self.base / "output/data"
        files = {name: sha256(record / name) for name in ("rounds.csv", "params.json", "environment.json")}
        return {"model": sha256(self.base / "model"), **files}


@pytest.fixture
def make_job(tmp_path: Path, commands: Any, trained: SimpleNamespace) -> Callable[[str], Job]:
    """Return the function that makes a job in a folder of that name."""

    def make(name: str) -> Job:
        shutil.copytree(trained.data / "features", tmp_path / name / "features")
        return Job(tmp_path / name, tmp_path / name / "features", commands)

    return make


def read_restored_round(log: str) -> int:
    """Return the round of the checkpoint from which the script resumed; 0 after a cold start."""
    rounds = re.findall(r"^checkpoint restored: (?:none|name=(\d{6}) saved_at=\S+\+00:00)$", log, re.MULTILINE)
    assert len(rounds) == 1, log[-2_000:]
    return int(rounds[0] or 0)


def count_rounds(log: str) -> int:
    """Return how many rounds were done when the script ended, by its log."""
    return max(
        [read_restored_round(log), *(int(number) + 1 for number in re.findall(r"^\[(\d+)\]\ttrain", log, re.MULTILINE))]
    )


def read_until(process: Any, start: str) -> str:
    """Read the log of the script up to the first line that begins with `start`, and return it."""
    log = ""
    for line in process.stdout:
        log += str(line)
        if line.startswith(start):
            return log
    raise AssertionError(f"the script ended before {start!r}: {log[-2_000:]}")


def limit_pipe(process: Any) -> Any:
    """Limit the pipe of the log, so that the script waits after BUFFERED_ROUNDS unread rounds.

    The training is then not over when a signal comes late on a busy machine.
    """
    if sys.platform == "linux":
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return process


def interrupt(process: Any, number: int) -> str:
    """Send the signal, check that the script ended by it, and return the rest of its log."""
    process.send_signal(number)
    log = str(process.stdout.read())
    assert process.wait() in ((-number,) if number == signal.SIGKILL else (-number, 128 + number)), log
    assert "Traceback" not in log or process.returncode < 0
    return log


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_kills_and_stops_at_random_moments_change_no_byte(make_job: Callable[[str], Job], seed: int) -> None:
    """With a checkpoint after each round, a kill loses at most one round, and a stop loses none."""
    uninterrupted_job, job, generator = make_job("uninterrupted"), make_job("interrupted"), random.Random(seed)
    hyperparameters = HYPERPARAMETERS | {"num_round": 250, "early_stopping_rounds": 250}
    assert read_restored_round(uninterrupted_job.run(hyperparameters | {"checkpoint_s": 1_000})) == 0
    rounds = 0
    for n in range(5):
        if n > 1 and rounds + 15 + BUFFERED_ROUNDS > hyperparameters["num_round"]:
            break  # on this slow machine, the next interruption might come after the end
        number = generator.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        process = limit_pipe(job.start(hyperparameters))
        log = read_until(process, f"[{rounds + generator.randrange(15)}]\t")
        time.sleep(generator.random() * 0.02)  # the moment of the interruption is the test's subject
        log += interrupt(process, number)
        assert read_restored_round(log) == rounds
        rounds = count_rounds(log)
        names = sorted(path.name for path in job.checkpoints.iterdir())
        assert int(names[-1]) == rounds or (number == signal.SIGKILL and int(names[-1]) == rounds - 1)
        rounds = int(names[-1])
        assert not (job.base / "model").exists()
    assert read_restored_round(job.run(hyperparameters)) == rounds
    different_names = {
        name for name, digest in job.compute_digests().items() if uninterrupted_job.compute_digests()[name] != digest
    }
    assert different_names == {"params.json"}, "only params.json differs: it has the interval of the checkpoints"


@pytest.mark.soak
@pytest.mark.parametrize("kills", [8])
def test_kills_during_timed_checkpoints_change_no_byte(make_job: Callable[[str], Job], kills: int) -> None:
    """The script makes progress, though it keeps one checkpoint and each kill comes within a tenth of a second."""
    uninterrupted_job, job, generator = make_job("uninterrupted"), make_job("interrupted"), random.Random(20)
    checkpoint_options = {"num_round": 800, "early_stopping_rounds": 800, "checkpoint_s": 0.02, "keep_checkpoints": 1}
    hyperparameters = HYPERPARAMETERS | checkpoint_options
    # A run that is not killed needs no checkpoints, and takes half the time without them.
    without_checkpoints = hyperparameters | {"checkpoint_s": 1_000}
    uninterrupted_job.run(without_checkpoints)
    rounds = 0
    for n in range(kills):
        checkpoints = set(job.checkpoints.glob("[0-9]*"))  # not the test folder that the script creates for a moment
        process = limit_pipe(job.start(hyperparameters))
        log = read_until(process, "checkpoint restored")
        # Each second kill comes after a new checkpoint, however slow the machine is.
        while n % 2 and set(job.checkpoints.glob("[0-9]*")) <= checkpoints and process.poll() is None:
            log += process.stdout.readline()
        time.sleep(generator.random() * 0.1)
        log += interrupt(process, signal.SIGKILL)
        assert read_restored_round(log) >= rounds
        rounds = read_restored_round(log)
    assert read_restored_round(job.run(without_checkpoints)) >= rounds
    assert rounds > 0, "no kill came after a checkpoint"
    assert job.compute_digests() == uninterrupted_job.compute_digests()


def change_task(features: Path, task: str) -> None:
    """Replace the labels of the channels by numbers or by texts, and name the task in their description."""
    for path in features.glob("*/data.parquet"):
        table = pq.read_table(path)
        description = json.loads(table.schema.metadata[METADATA_KEY])
        label = description["label"]
        labels = pc.add(pc.multiply(pc.cast(table[label], pa.float64()), 30.0), table["distance"])
        if task == "multiclass":
            late = pc.if_else(pc.less(table["distance"], 800), "late, near", "late, far")
            labels = pc.if_else(table[label], late, "on time")
        table = table.set_column(table.schema.get_field_index(label), label, labels)
        metadata = {METADATA_KEY: json.dumps({**description, "task": task}).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("task", "more_hyperparameters", "metric"),
    [("regression", {"quantiles": [0.1, 0.5, 0.9]}, "quantile"), ("multiclass", {}, "mlogloss")],
)
def test_kills_of_other_tasks_change_no_byte(
    make_job: Callable[[str], Job], task: str, more_hyperparameters: dict[str, Any], metric: str
) -> None:
    job, straight_job = make_job("killed"), make_job("straight")
    for each_job in (job, straight_job):
        change_task(each_job.features, task)
    hyperparameters = {**HYPERPARAMETERS, "num_round": 60, **more_hyperparameters}
    straight_job.run(hyperparameters)
    random_rounds = random.Random(4)
    for _ in range(3):
        process = limit_pipe(job.start(hyperparameters))
        read_until(process, "checkpoint restored")
        for _ in range(random_rounds.randint(1, 12)):
            read_until(process, "[")
        process.kill()
        process.communicate()
    log = job.run(hyperparameters)
    assert read_restored_round(log) > 0
    assert f"validation-{metric}" in log
    assert job.compute_digests() == straight_job.compute_digests()


@pytest.mark.parametrize("stops", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_a_stop_before_the_first_round_leaves_nothing(make_job: Callable[[str], Job], stops: int) -> None:
    """The script is stopped while Python imports or reads the data. It leaves neither a model nor a failure."""
    job, generator = make_job("job"), random.Random(4)
    for _ in range(stops):
        process = job.start(HYPERPARAMETERS | ENDLESS, is_real=True)
        time.sleep(generator.random() * 2)
        interrupt(process, signal.SIGTERM)
        assert not (job.base / "model").exists()
        assert not (job.base / "output/failure").exists(), "an interruption is not a failure of the script"


def test_a_second_signal_changes_nothing(make_job: Callable[[str], Job]) -> None:
    job = make_job("job")
    process = job.start(HYPERPARAMETERS | ENDLESS)
    log = read_until(process, "[3]\t")
    process.send_signal(signal.SIGTERM)
    log += interrupt(process, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert max(path.name for path in job.checkpoints.iterdir()) == f"{count_rounds(log):06d}"


@pytest.mark.parametrize("changed", ["eta", "data"])
def test_resumes_from_no_checkpoint_of_other_hyperparameters_or_data(
    make_job: Callable[[str], Job], changed: str
) -> None:
    job, fresh_job, hyperparameters = make_job("job"), make_job("fresh"), HYPERPARAMETERS | {"num_round": 20}
    job.run(hyperparameters)
    if changed == "eta":
        hyperparameters |= {"eta": 0.3}
    else:
        for training in (job, fresh_job):
            shutil.copy2(training.features / "validation/data.parquet", training.features / "train/data.parquet")
    log = job.run(hyperparameters)
    assert read_restored_round(log) == 0
    assert "checkpoint 000020 belongs to other hyperparameters or other data; trying the one before" in log
    fresh_job.run(hyperparameters)
    assert job.compute_digests() == fresh_job.compute_digests()


def test_resumes_after_a_change_of_the_checkpoint_options(make_job: Callable[[str], Job]) -> None:
    """The negative control: options that do not change the model may change between two runs."""
    job = make_job("job")
    log = job.run(HYPERPARAMETERS | {"num_round": 20, "verbose_eval": 7})
    assert re.findall(r"^\[(\d+)\]\ttrain", log, re.MULTILINE) == ["0", "7", "14"], "every seventh round is in the log"
    assert "trained 20 rounds; the best on validation: round " in log
    log = job.run(HYPERPARAMETERS | {"num_round": 20, "checkpoint_s": 7, "keep_checkpoints": 5})
    assert read_restored_round(log) == 20


def test_saves_by_time_by_rounds_and_at_the_end(make_job: Callable[[str], Job]) -> None:
    job = make_job("job")
    hyperparameters = HYPERPARAMETERS | {"num_round": 25, "keep_checkpoints": 50, "checkpoint_s": 1_000}
    job.run(hyperparameters)
    assert [path.name for path in job.checkpoints.iterdir()] == ["000025"], "the last round is always saved"
    shutil.rmtree(job.checkpoints)
    job.run(hyperparameters | {"checkpoint_rounds": 10})
    assert sorted(path.name for path in job.checkpoints.iterdir()) == ["000010", "000020", "000025"]
    shutil.rmtree(job.checkpoints)
    job.run(hyperparameters | {"checkpoint_s": 0})
    assert len(list(job.checkpoints.iterdir())) == 25


def test_warns_of_a_checkpoint_of_another_xgboost(make_job: Callable[[str], Job]) -> None:
    job, hyperparameters = make_job("job"), HYPERPARAMETERS | {"num_round": 10}
    assert "may differ" not in job.run(hyperparameters)
    path = job.checkpoints / "000010"
    content = path.read_bytes()[:-64].replace(b'"xgboost": "', b'"xgboost": "1.', 1)
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
    log = job.run(hyperparameters)
    assert read_restored_round(log) == 10
    assert re.search(r"the checkpoint was saved by xgboost 1\.\S+, not by .*: the model may differ", log)


def test_each_round_is_in_the_record_once(make_job: Callable[[str], Job]) -> None:
    job = make_job("job")
    process = limit_pipe(job.start(HYPERPARAMETERS))
    read_until(process, "[30]\t")
    interrupt(process, signal.SIGKILL)
    job.run(HYPERPARAMETERS)
    assert list(pd.read_csv(job.base / "output/data/rounds.csv")["round"]) == list(range(120))


def test_ignores_foreign_files_among_the_checkpoints(make_job: Callable[[str], Job]) -> None:
    job, hyperparameters = make_job("job"), HYPERPARAMETERS | {"num_round": 20}
    job.run(hyperparameters)
    (job.checkpoints / "000999").write_text("foreign")
    (job.checkpoints / "notes").mkdir()
    log = job.run(hyperparameters)
    assert read_restored_round(log) == 20
    assert "checkpoint 000999 cannot be read as a checkpoint; trying the one before" in log
    assert (job.checkpoints / "000999").read_text() == "foreign"
    assert (job.checkpoints / "notes").is_dir()


def test_an_unusable_checkpoint_folder_gives_an_error_without_traceback(make_job: Callable[[str], Job]) -> None:
    job = make_job("job")
    job.checkpoints.write_text("a file, not a folder")
    process = job.start(HYPERPARAMETERS)
    log, _ = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "Traceback" not in log
    assert "FileExistsError" in (job.base / "output/failure").read_text()


# `python -m pipelines train` passes signals on to the script


@pytest.fixture
def start_step(commands: Any, trained: SimpleNamespace, home: Path, until: Callable[..., Any]) -> Callable[[], Any]:
    """Return the function that starts a training as a step, and returns when it has done some rounds."""
    shutil.copytree(trained.data / "features", "data/features")

    def start() -> Any:
        hyperparameters = json.dumps(ENDLESS | {"checkpoint_s": 1_000, "checkpoint_rounds": 10_000})
        log = (home.parent / "step.log").open("w")
        process = commands.start(
            sys.executable, "-m", "pipelines", "train", "--hyperparameters", hyperparameters, stderr=log
        )
        until(lambda: "[5]\t" in (home.parent / "step.log").read_text())
        assert not list(home.glob("training/*/checkpoints/[0-9]*"))
        return process

    return start


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak)]
)
def test_a_stopped_step_lets_the_script_save_a_checkpoint(
    start_step: Callable[[], Any], commands: Any, home: Path, number: int, code: int
) -> None:
    process = start_step()
    process.send_signal(number)  # only the step gets the signal
    out, _ = process.communicate(timeout=180)
    log = (home.parent / "step.log").read_text()
    assert process.returncode == code, log[-2_000:]
    assert out == ""
    assert not commands.list_members(process.pid), "the script ends before the step"
    assert [path.name for path in home.glob("training/*/checkpoints/[0-9]*")] == [f"{count_rounds(log):06d}"]
    assert "stopped; the last checkpoint is saved" in log


@pytest.mark.soak
def test_a_stopped_process_group_saves_a_checkpoint(start_step: Callable[[], Any], commands: Any, home: Path) -> None:
    """Ctrl-C in a terminal sends the signal to the whole group, so the script gets it twice."""
    process = start_step()
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=180)
    assert process.returncode == 130
    assert len(list(home.glob("training/*/checkpoints/[0-9]*"))) == 1
    assert "Traceback" not in (home.parent / "step.log").read_text()


# The example of the documentation


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Return the script of the documentation; its training data are in place."""
    text = (ROOT / "docs/how-to/training-script.md").read_text()
    script = tmp_path / "example.py"
    script.write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
    (tmp_path / "ml/input/data/train").mkdir(parents=True)
    (tmp_path / "ml/input/data/train/data.json").write_text("[[1, 2], [2, 4.5], [3, 5.5]]")
    return script


def test_the_documented_script_resumes_after_a_stop(example: Path, commands: Any, tmp_path: Path) -> None:
    env = {"SAGEMAKER_BASE_DIR": str(tmp_path / "ml")}
    model = tmp_path / "ml/model/model.json"
    command = (sys.executable, str(example))
    uninterrupted_process = commands.run(*command, env=env)
    assert uninterrupted_process.out == "checkpoint restored: none\n", uninterrupted_process.err
    content = model.read_bytes()
    model.unlink()
    rounds: list[int] = []
    # A run that is stopped before its first step has nothing to save, so another one is stopped.
    while not any(rounds):
        # The run takes 20 s, so it is not over before the signal.
        process = commands.start(*command, env={**env, "slow": "0.05"})
        log = read_until(process, "checkpoint restored")
        rounds.append(read_restored_round(log))
        time.sleep(0.2)
        interrupt(process, signal.SIGTERM)
        assert process.returncode == 143
        assert not model.exists()
        assert len(rounds) < 10, "a stop saves a checkpoint"
    assert rounds[0] == 0
    last_process = commands.run(*command, env=env)
    assert last_process.code == 0
    assert read_restored_round(last_process.out) > 0
    assert model.read_bytes() == content
