"""Test templates/torch: the same training on any number of processes, whoever is killed or stopped at any moment."""

import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tools.imports import ROOT
from tests.tools.torch_runs import REASON, SCRIPT, TorchJob, kill_host, write_channels
from tests.tools.waiting import wait_until

BOUND = 2e-4
"""Largest difference of a weight between trainings that add the same numbers in another order."""


@pytest.fixture(scope="module")
def channels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the channels."""
    pytest.importorskip("torch", reason=REASON)
    return write_channels(tmp_path_factory.mktemp("channels"))


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, channels: Path) -> TorchJob:
    """Return a job that ended without an interruption, on one process without torchrun."""
    job = TorchJob(tmp_path_factory.mktemp("straight"), channels)
    assert "checkpoint restored: none" in job.run(processes=0)
    return job


@pytest.fixture
def job(tmp_path: Path, channels: Path) -> TorchJob:
    """Return a job that has not started."""
    return TorchJob(tmp_path / "job", channels)


def assert_close(job: TorchJob, other: TorchJob, bound: float = BOUND) -> None:
    """Assert that two jobs trained the same network."""
    weights, others = job.read_weights(), other.read_weights()
    assert weights.keys() == others.keys()
    assert max(np.abs(weights[name] - others[name]).max() for name in weights) <= bound


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_hosts_train_the_network_of_one(strategy: str, job: TorchJob, straight: TorchJob) -> None:
    output = job.run(hosts=2, strategy=strategy, accumulation=4)
    assert_close(job, straight)
    assert output.count("checkpoint restored: none") == 1 and "[2]\ttrain-logloss:0." in output
    assert (job.base / "output/data/rounds.csv").read_text().count("\n") == 4


def test_bf16_gives_nearly_the_same_and_not_the_same(job: TorchJob, straight: TorchJob) -> None:
    job.run(processes=0, precision="bf16")
    assert_close(job, straight, bound=0.05)
    with pytest.raises(AssertionError):
        assert_close(job, straight, bound=1e-7)


def test_the_model_scores_rows(straight: TorchJob) -> None:
    from pipelines.defaults.channels import read_channel

    load = runpy.run_path(str(SCRIPT.with_name("model.py")))["load"]
    rows, _ = read_channel(straight.channels / "validation")
    model = load(straight.base / "model")
    scores = model.score(rows)
    assert scores.shape == (300,) and scores[rows.y == 1].mean() > scores[rows.y == 0].mean() + 0.1
    assert list(model.score(rows.head(0))) == [] and sum(model.importance().values()) == pytest.approx(1)
    unseen = rows.assign(c="new")
    assert np.isfinite(model.score(unseen)).all()


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_host_ends_the_other_and_one_process_resumes(victim: int, job: TorchJob, straight: TorchJob) -> None:
    hosts = job.start(hosts=2, strategy="fsdp", checkpoint_s=0)
    wait_until(lambda: len(job.list_steps()) > 1, 120)
    kill_host(hosts[victim])
    outputs = [host.communicate(timeout=120)[0] for host in hosts]
    assert hosts[1 - victim].returncode not in (0, -signal.SIGKILL)
    assert "the training ended, perhaps because another process or host did" in outputs[1 - victim]
    assert not (job.base / "model").exists()
    step = max(job.list_steps())
    assert f"checkpoint restored: name={step:06d} " in job.run(processes=0)
    assert_close(job, straight)


def test_four_processes_are_stopped_and_two_resume(job: TorchJob, straight: TorchJob) -> None:
    (host,) = job.start(processes=4)
    read_until(host, "checkpoint restored")
    host.send_signal(signal.SIGTERM)
    output = host.communicate(timeout=120)[0]
    assert host.returncode != 0 and output.count("stopped; the last checkpoint is saved") == 4, output
    (step,) = job.list_steps()
    assert f"checkpoint restored: name={step:06d} " in job.run(processes=2, strategy="fsdp", epochs=3)
    assert_close(job, straight)


def test_a_network_of_another_shape_and_wrong_values_are_refused_in_one_line(job: TorchJob) -> None:
    job.run(processes=0, epochs=1, checkpoint_s=0)
    refuse = run_refused(job)
    assert refuse(batch_size=10, accumulation=3) == "batch_size 10 cannot be divided into 3 equal parts."
    assert refuse(epochs=0) == "hyperparameter epochs must be from 1 to 100000, not 0."
    text = (job.checkpoints / max(path.name for path in job.checkpoints.iterdir()) / "state.json").read_text()
    assert '"model.output.bias": [1]' in text
    for path in job.checkpoints.glob("*/state.json"):
        path.write_text(path.read_text().replace('"model.output.bias": [1]', '"model.output.bias": [2]'))
    reason = refuse(epochs=2)
    assert reason.endswith("model.output.bias has the shape [2], not [1]. Use another checkpoint folder.")


def test_a_loss_that_is_not_a_number_ends_the_training(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason=REASON)
    job = TorchJob(tmp_path / "job", write_channels(tmp_path / "channels", scale=1e38))
    reason = run_refused(job)()
    assert reason == "the loss is not a number in epoch 0, batch 0: lower learning_rate, or check the features."


def test_without_torch_the_script_says_what_to_install() -> None:
    code = f"import runpy, sys; sys.modules['torch'] = None; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    line = "the package torch is missing: pip install 'leeway[torch]', or use a PyTorch image"
    assert (result.returncode, result.stderr.strip()) == (1, line)


def run_refused(job: TorchJob) -> Callable[..., str]:
    """Return the function that runs a job that is refused, and returns the last line of its output."""

    def run(**hyperparameters: Any) -> str:
        (process,) = job.start(processes=0, **hyperparameters)
        output = process.communicate(timeout=120)[0]
        assert process.returncode == 1 and "Traceback" not in output, output
        line = output.splitlines()[-1]
        assert (job.base / "output/failure").read_text() == line
        return line

    return run


def read_until(process: subprocess.Popen[str], start: str) -> None:
    """Read the output of a process up to the first line that begins with `start`."""
    assert process.stdout
    assert any(line.startswith(start) for line in process.stdout), f"the script ended before {start!r}"
