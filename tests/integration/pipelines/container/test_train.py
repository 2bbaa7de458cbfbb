"""Test the step `train`: the same model however often it is interrupted, and one line for each crash."""

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
from tests.tools.otlp_receiver import run_collector
from tests.tools.trainings import start_suspended_training

ROOT = Path(__file__).parents[4]
SLOW = {"num_round": 400, "early_stopping_rounds": 400, "checkpoint_rounds": 10, "eta": 0.05}
"""A training of a few seconds, which is long enough to kill it before its end."""


@pytest.fixture
def features(home: Path, trained: SimpleNamespace) -> Path:
    """Copy the features of the trained model into data/, and return their folder."""
    shutil.copytree(trained.data / "features", "data/features")
    return Path("data/features")


def test_equal_inputs_give_an_equal_model(features: Path, trained: SimpleNamespace) -> None:
    repeat = train(
        TrainSpec(
            dataset="flights",
            hyperparameters={"num_round": 40, "early_stopping_rounds": 10, "checkpoint_rounds": 5, "eta": 0.3},
        )
    )
    assert repeat.digest == trained.training.digest
    assert repeat.training_job == trained.training.training_job
    other = train(
        TrainSpec(
            dataset="flights", hyperparameters={"num_round": 5}, trained_model="other/model", record="other/record"
        )
    )
    assert other.digest != repeat.digest
    assert other.training_job != repeat.training_job
    assert sha256(Path("data/model")) == repeat.digest, "the first model is unchanged"


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
    metrics = trained.training.metrics
    assert metrics["best_validation-logloss"] == pytest.approx(min(losses))
    assert metrics["best_round"] == losses.index(min(losses))
    assert metrics["peak_memory_mib"] > 10
    assert 0 < metrics["data_wait_share"] < 1
    assert json.loads((record / "params.json").read_text())["num_round"] == 40
    environment = json.loads((record / "environment.json").read_text())
    assert environment["training_job"] == trained.training.training_job
    assert {"python", "git_commit", "xgboost-cpu", "cores"} <= set(environment)


def test_a_finished_training_leaves_no_folder_in_the_home(features: Path, home: Path) -> None:
    train(TrainSpec(dataset="flights", hyperparameters={"num_round": 3}))
    assert [path for path in (home / "training").iterdir() if path.is_dir()] == []


def test_a_training_without_airflow_continues_the_given_trace(features: Path, commands: Any) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    hyperparameters = ("--hyperparameters", json.dumps({"num_round": 3}))
    untraced = commands.run_step("train", *hyperparameters)
    with run_collector() as collector:
        env = {"TRACEPARENT": f"00-{trace}-{parent}-01", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        traced = commands.run_step("train", *hyperparameters, env=env)
    assert traced.code == 0, traced.err
    step = collector.find(name="step.train")
    assert (step.trace, step.parent) == (trace, parent)
    phases = collector.select(trace=trace, parent=step.id)
    assert [span.name for span in phases] == ["training.read", "training.fit", "training.save"]
    assert phases[1].attributes == {"leeway.rounds": 3}
    digests = [json.loads(process.out)["digest"] for process in (untraced, traced)]
    assert digests[0] == digests[1], "the model does not depend on the trace"


def start_slow_training(commands: Any, until: Callable[..., Any], home: Path, rounds: int) -> Any:
    """Start a slow training, and suspend it after a checkpoint of so many rounds."""
    return start_suspended_training(commands, until, home, SLOW, rounds)


@pytest.fixture
def uninterrupted(features: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the digest of the model of an uninterrupted training."""
    return train(
        TrainSpec(
            dataset="flights", hyperparameters=SLOW, trained_model="uninterrupted/model", record="uninterrupted/record"
        )
    ).digest


@pytest.mark.soak
def test_an_interrupted_training_ends_with_the_same_model(
    uninterrupted: str, commands: Any, until: Callable[..., Any], home: Path
) -> None:
    for number, rounds in ((signal.SIGKILL, 20), (signal.SIGTERM, 60), (signal.SIGKILL, 110)):
        process = start_slow_training(commands, until, home, rounds)
        os.killpg(process.pid, number)
        os.killpg(process.pid, signal.SIGCONT)
        process.communicate(timeout=180)
        until(lambda group=process.pid: not commands.list_members(group))
        assert not Path("data/model").exists(), "an interrupted training leaves no model"
    last_process = commands.run_step("train", "--hyperparameters", json.dumps(SLOW))
    assert last_process.code == 0, last_process.err[-2_000:]
    assert "resuming from the checkpoint after round" in last_process.err, last_process.err[:1_000]
    assert json.loads(last_process.out)["digest"] == uninterrupted
    assert Path("data/training/rounds.csv").read_text() == Path("uninterrupted/record/rounds.csv").read_text()


def test_a_killed_script_gives_an_error_that_can_be_retried(
    features: Path, commands: Any, until: Callable[..., Any], home: Path
) -> None:
    """The kernel kills a script that uses too much memory."""
    process = start_slow_training(commands, until, home, 20)
    script = next(member for member in commands.list_members(process.pid) if member.pid != process.pid)
    script.kill()
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 75
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1


def test_refuses_a_second_run_of_the_same_training(
    features: Path, commands: Any, until: Callable[..., Any], home: Path
) -> None:
    process = start_slow_training(commands, until, home, 10)
    second = commands.run_step("train", "--hyperparameters", json.dumps(SLOW))
    assert second.code == 75
    assert "another process runs the training" in second.err
    # A script whose step was killed runs on, and keeps the lock of the folder.
    process.kill()
    process.wait()
    assert len(commands.list_members(process.pid)) == 1
    assert commands.run_step("train", "--hyperparameters", json.dumps(SLOW)).code == 75
    os.killpg(process.pid, signal.SIGCONT)
    until(lambda: not commands.list_members(process.pid))
    after = commands.run_step("train", "--hyperparameters", json.dumps(SLOW))
    assert after.code == 0, after.err[-2_000:]


def test_resumes_from_the_checkpoint_before_a_damaged_one(
    uninterrupted: str, commands: Any, until: Callable[..., Any], home: Path
) -> None:
    process = start_slow_training(commands, until, home, 40)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    newest = max(home.glob("training/*/checkpoints/[0-9]*"))
    with newest.open("r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(os.urandom(100))
    last_process = commands.run_step("train", "--hyperparameters", json.dumps(SLOW))
    assert last_process.code == 0, last_process.err[-2_000:]
    assert f"checkpoint {newest.name} is truncated or corrupt; trying the one before" in last_process.err
    assert f"checkpoint restored: name={int(newest.name) - SLOW['checkpoint_rounds']:06d} " in last_process.err
    assert json.loads(last_process.out)["digest"] == uninterrupted


CRASHES = {
    "an unknown hyperparameter": ({"oops": 3}, "unknown hyperparameters: --oops 3"),
    "an invalid value": ({"num_round": "many"}, "hyperparameter num_round: it must be a whole number"),
    "a value that xgboost refuses": ({"max_depth": -5}, "max_depth"),
    "no checkpoint to keep": (
        {"keep_checkpoints": 0},
        "hyperparameter keep_checkpoints: it must be a whole number from 1",
    ),
    "a negative interval": ({"checkpoint_s": -1}, "hyperparameter checkpoint_s: it must be a number from 0"),
}


@pytest.mark.parametrize("case", CRASHES)
def test_a_crash_gives_an_error_with_its_reason(case: str, features: Path) -> None:
    hyperparameters, reason = CRASHES[case]
    with pytest.raises(TrainingError, match=reason) as error:
        train(TrainSpec(dataset="flights", hyperparameters=hyperparameters))
    assert error.value.exit_code == 2
    assert not Path("data/model").exists()
    assert not Path("data/training").exists()


def test_a_crash_keeps_the_model_of_the_run_before(features: Path) -> None:
    before = train(TrainSpec(dataset="flights", hyperparameters={"num_round": 3}))
    with pytest.raises(TrainingError):
        train(TrainSpec(dataset="flights", hyperparameters={"max_depth": -5}))
    assert sha256(Path("data/model")) == before.digest


def test_prints_a_traceback_only_with_leeway_debug(features: Path, commands: Any) -> None:
    Path("data/features/train/data.parquet").write_bytes(b"no parquet")
    process = commands.run_step("train")
    assert process.code == 2
    assert "Traceback" not in process.err
    assert len([line for line in process.err.splitlines() if line.startswith("error: ")]) == 1
    assert "train/data.parquet cannot be read: Parquet magic bytes not found" in process.err
    assert "Traceback" in commands.run_step("train", env={"LEEWAY_DEBUG": "1"}).err


def test_refuses_to_train_without_features(home: Path) -> None:
    with pytest.raises(DataError, match="`preprocess` writes it"):
        train(
            TrainSpec(
                dataset="flights",
            )
        )
    with pytest.raises(DataError):
        train(TrainSpec(dataset="flights", features="nowhere"))


def test_refuses_an_unknown_dataset(features: Path) -> None:
    with pytest.raises(SpecError, match="has the features of flights, not of nope"):
        train(TrainSpec(dataset="nope"))


BUNDLED = """
import sys
sys.argv[0] = sys.argv[1]; del sys.argv[1]
import runpy
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as error:
    assert not error.code, error.code
modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "pipelines"]
print("MODULES", [str(getattr(module, "__file__", "")) for module in modules])
"""


@pytest.mark.parametrize("missing_file", ["", pytest.param("pipelines/container/tracking.py", marks=pytest.mark.soak)])
def test_the_bundle_is_complete(features: Path, commands: Any, tmp_path: Path, missing_file: str) -> None:
    """The process can import only the bundle's files and the script, and nothing else of the project."""
    bundle, code = ROOT / "pipelines/defaults/bundle.txt", tmp_path / "code"
    for name in [*bundle.read_text().split(), "pipelines/defaults/training.py"]:
        if name != missing_file:
            (code / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, code / name)
    env = {"PYTHONPATH": str(code), "SM_CHANNEL_TRAIN": str(features.absolute() / "train"),
           "SM_CHANNEL_VALIDATION": str(features.absolute() / "validation"), "SAGEMAKER_BASE_DIR": str(tmp_path / "ml"),
           "TRAINING_JOB_NAME": "bundled"}  # fmt: skip
    process = commands.run(
        sys.executable,
        "-P",
        "-c",
        BUNDLED,
        str(code / "pipelines/defaults/training.py"),
        "--num_round",
        "3",
        env=env,
    )
    if missing_file:
        assert process.code != 0
        assert "ModuleNotFoundError" in process.err
        return
    assert process.code == 0, process.err
    modules = next(line for line in process.out.splitlines() if line.startswith("MODULES"))
    assert str(ROOT) not in modules
    assert str(code) in modules
    assert (tmp_path / "ml/model/model.ubj").exists()
    assert (tmp_path / "ml/output/data/rounds.csv").exists()


@pytest.mark.soak
def test_the_number_of_threads_does_not_change_the_model(features: Path, commands: Any) -> None:
    """This holds for this xgboost at this size. xgboost does not promise it: nthread exists to fix the number."""
    digests = set()
    for threads in (0, 1, 2, 3):
        hyperparameters = json.dumps({"num_round": 20, "nthread": threads})
        outputs = ("--trained-model", f"m{threads}", "--record", f"r{threads}")
        process = commands.run_step("train", "--hyperparameters", hyperparameters, *outputs)
        assert process.code == 0, process.err
        digests.add(json.loads(process.out)["digest"])
    assert len(digests) == 1
