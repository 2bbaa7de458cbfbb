"""Training as the step does it: the same model however often it is interrupted, and a crash that is said in a line."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import DataError, SpecError, TrainingError
from pipelines.steps.train import TrainSpec
from pipelines.steps.train import run as train
from pipelines.system.files import sha256
from tests.tools.trainings import start_suspended_training

ROOT = Path(__file__).parents[4]
SLOW = {"num_round": 400, "early_stopping_rounds": 400, "checkpoint_rounds": 10, "eta": 0.05}
"""Long enough to be killed in the middle: a few seconds."""


@pytest.fixture
def features(home: Path, trained: SimpleNamespace) -> Path:
    shutil.copytree(trained.data / "features", "data/features")
    return Path("data/features")


def test_the_model_is_a_function_of_its_inputs(features: Path, trained: SimpleNamespace) -> None:
    again = train(
        TrainSpec(hyperparameters={"num_round": 40, "early_stopping_rounds": 10, "checkpoint_rounds": 5, "eta": 0.3})
    )
    assert again.digest == trained.training.digest
    assert again.training_job == trained.training.training_job
    other = train(TrainSpec(hyperparameters={"num_round": 5}, model="other/model", record="other/record"))
    assert other.digest != again.digest
    assert other.training_job != again.training_job
    assert sha256(Path("data/model")) == again.digest, "the first is still there"


def test_the_record_is_complete(trained: SimpleNamespace) -> None:
    record = trained.data / "training"
    assert {path.name for path in record.iterdir()} == {
        "params.json",
        "environment.json",
        "rounds.csv",
        "resources.json",
        "scores.parquet",
    }
    rounds = (record / "rounds.csv").read_text().split()
    assert rounds[0] == "round,train-logloss,train-auc,validation-logloss,validation-auc"
    assert [int(line.split(",")[0]) for line in rounds[1:]] == list(range(len(rounds) - 1))
    losses = [float(line.split(",")[3]) for line in rounds[1:]]
    told = trained.training.metrics
    assert told["best_validation-logloss"] == pytest.approx(min(losses))
    assert told["best_round"] == losses.index(min(losses))
    assert told["peak_memory_mib"] > 10
    assert json.loads((record / "params.json").read_text())["num_round"] == 40
    environment = json.loads((record / "environment.json").read_text())
    assert environment["training_job"] == trained.training.training_job
    assert {"python", "git_commit", "xgboost-cpu", "cores"} <= set(environment)


def test_nothing_is_left_in_the_home_of_a_training_that_is_done(features: Path, home: Path) -> None:
    train(TrainSpec(hyperparameters={"num_round": 3}))
    assert [path for path in (home / "training").iterdir() if path.is_dir()] == []


def started(commands: Any, until: Callable[..., Any], home: Path, checkpoints: int) -> Any:
    """A training that stands still since it left that checkpoint."""
    return start_suspended_training(commands, until, home, SLOW, checkpoints)


@pytest.fixture
def uninterrupted(features: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return train(TrainSpec(hyperparameters=SLOW, model="whole/model", record="whole/record")).digest


def test_killed_and_stopped_and_run_again_it_ends_with_the_same_model(
    uninterrupted: str, commands: Any, until: Callable[..., Any], home: Path
) -> None:
    for number, checkpoints in ((signal.SIGKILL, 20), (signal.SIGTERM, 60), (signal.SIGKILL, 110)):
        child = started(commands, until, home, checkpoints)
        os.killpg(child.pid, number)
        os.killpg(child.pid, signal.SIGCONT)
        child.communicate(timeout=60)
        until(lambda group=child.pid: not commands.members(group))
        assert not Path("data/model").exists(), "half of a model"
    last = commands.step("train", "--hyperparameters", json.dumps(SLOW))
    assert last.code == 0, last.err[-2_000:]
    assert "resuming from the checkpoint after round" in last.err, last.err[:1_000]
    assert json.loads(last.out)["digest"] == uninterrupted
    assert Path("data/training/rounds.csv").read_text() == Path("whole/record/rounds.csv").read_text()


def test_a_script_that_was_killed_can_be_tried_again(
    features: Path, commands: Any, until: Callable[..., Any], home: Path
) -> None:
    """The kernel kills it for its memory, say."""
    child = started(commands, until, home, 20)
    script = next(one for one in commands.members(child.pid) if one.pid != child.pid)
    script.kill()
    child.send_signal(signal.SIGCONT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 75
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1


def test_two_of_the_same_training_do_not_meet(
    features: Path, commands: Any, until: Callable[..., Any], home: Path
) -> None:
    child = started(commands, until, home, 10)
    second = commands.step("train", "--hyperparameters", json.dumps(SLOW))
    assert second.code == 75
    assert "another process runs the training" in second.err
    # The script outlives a step that was killed alone: it still holds the folder.
    child.kill()
    child.wait()
    assert len(commands.members(child.pid)) == 1
    assert commands.step("train", "--hyperparameters", json.dumps(SLOW)).code == 75
    os.killpg(child.pid, signal.SIGCONT)
    until(lambda: not commands.members(child.pid))
    after = commands.step("train", "--hyperparameters", json.dumps(SLOW))
    assert after.code == 0, after.err[-2_000:]


def test_a_damaged_checkpoint_is_left_for_the_one_before(
    uninterrupted: str, commands: Any, until: Callable[..., Any], home: Path
) -> None:
    child = started(commands, until, home, 40)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    newest = max(home.glob("training/*/checkpoints/[0-9]*"))
    with newest.open("r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(os.urandom(100))
    last = commands.step("train", "--hyperparameters", json.dumps(SLOW))
    assert last.code == 0, last.err[-2_000:]
    assert f"checkpoint {newest.name} is truncated or corrupt; trying the one before" in last.err
    assert f"checkpoint restored: name={int(newest.name) - SLOW['checkpoint_rounds']:06d} " in last.err
    assert json.loads(last.out)["digest"] == uninterrupted


CRASHES = {
    "a hyperparameter that is none": ({"oops": 3}, "unrecognized arguments"),
    "a wrong value": ({"num_round": "many"}, "invalid int value"),
    "what xgboost refuses": ({"max_depth": -5}, "max_depth"),
    "no checkpoint to keep": ({"keep_checkpoints": 0}, "keep is at least 1"),
    "an interval that is none": ({"checkpoint_s": -1}, "every_s at least 0"),
}


@pytest.mark.parametrize("case", CRASHES)
def test_a_crash_is_a_line_with_its_reason(case: str, features: Path) -> None:
    hyperparameters, reason = CRASHES[case]
    with pytest.raises(TrainingError, match=reason) as caught:
        train(TrainSpec(hyperparameters=hyperparameters))
    assert caught.value.exit_code == 2
    assert not Path("data/model").exists()
    assert not Path("data/training").exists()


def test_a_crash_leaves_the_model_of_before(features: Path) -> None:
    before = train(TrainSpec(hyperparameters={"num_round": 3}))
    with pytest.raises(TrainingError):
        train(TrainSpec(hyperparameters={"max_depth": -5}))
    assert sha256(Path("data/model")) == before.digest


def test_no_traceback_unless_it_is_asked_for(features: Path, commands: Any) -> None:
    Path("data/features/train/data.parquet").write_bytes(b"no parquet")
    done = commands.step("train")
    assert done.code == 2
    assert "Traceback" not in done.err
    assert len([line for line in done.err.splitlines() if line.startswith("error: ")]) == 1
    assert "training.py ended with exit code 1: ArrowInvalid" in done.err
    assert "Traceback" in commands.step("train", env={"LEEWAY_DEBUG": "1"}).err


def test_no_features_no_training(home: Path) -> None:
    with pytest.raises(DataError, match="`preprocess` writes it"):
        train(TrainSpec())
    with pytest.raises(DataError):
        train(TrainSpec(features="nowhere"))


def test_no_such_dataset(features: Path) -> None:
    with pytest.raises(SpecError, match="no dataset"):
        train(TrainSpec(dataset="nope"))


BUNDLED = """
import sys
sys.argv[0] = sys.argv[1]; del sys.argv[1]
import runpy
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as left:
    assert not left.code, left.code
ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "pipelines"]
print("PLACES", [str(getattr(module, "__file__", "")) for module in ours])
"""


@pytest.mark.parametrize("left_out", ["", "pipelines/container/tracking.py"])
def test_the_bundle_is_complete(features: Path, commands: Any, tmp_path: Path, left_out: str) -> None:
    """Only the bundle's files and the script are there; nothing of the project can be imported."""
    bundle, code = ROOT / "pipelines/datasets/flights/bundle.txt", tmp_path / "code"
    for name in [*bundle.read_text().split(), "pipelines/datasets/flights/training.py"]:
        if name != left_out:
            (code / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, code / name)
    env = {"PYTHONPATH": str(code), "SM_CHANNEL_TRAIN": str(features.absolute() / "train"),
           "SM_CHANNEL_VALIDATION": str(features.absolute() / "validation"), "SAGEMAKER_BASE_DIR": str(tmp_path / "ml"),
           "TRAINING_JOB_NAME": "bundled"}  # fmt: skip
    done = commands.run(
        sys.executable,
        "-P",
        "-c",
        BUNDLED,
        str(code / "pipelines/datasets/flights/training.py"),
        "--num_round",
        "3",
        env=env,
    )
    if left_out:
        assert done.code != 0
        assert "ModuleNotFoundError" in done.err
        return
    assert done.code == 0, done.err
    places = next(line for line in done.out.splitlines() if line.startswith("PLACES"))
    assert str(ROOT) not in places
    assert str(code) in places
    assert (tmp_path / "ml/model/model.ubj").exists()
    assert (tmp_path / "ml/output/data/rounds.csv").exists()


def test_the_number_of_threads_does_not_change_the_model(features: Path, commands: Any) -> None:
    """Of this xgboost at this size. It is no promise of xgboost's: nthread is there to be pinned."""
    digests = set()
    for threads in (0, 1, 2, 3):
        hyperparameters = json.dumps({"num_round": 20, "nthread": threads})
        where = ("--model", f"m{threads}", "--record", f"r{threads}")
        done = commands.step("train", "--hyperparameters", hyperparameters, *where)
        assert done.code == 0, done.err
        digests.add(json.loads(done.out)["digest"])
    assert len(digests) == 1
