"""Test that a fine-tuning which is killed or stopped gives the model of a training without interruptions."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest

from .test_fine_tuning import compare_weights

LONG = {"epochs": 7, "checkpoint_s": 0, "batch_size": 3}
"""56 steps with a checkpoint after each: none is over before the signal, since at most 40 lines are in the pipe."""
NEXT = {**LONG, "checkpoint_s": 1_000}
"""The same without checkpoints, for runs that nothing interrupts."""
OTHER_BOUND, LOSS_BOUND = 5e-3, 1e-3
"""Largest differences of a weight and of a loss if the training resumes on another number of hosts. The gradients are
added up in another order, and Adam enlarges differences where gradients are almost 0. Another seed gives 0.1."""


def read_restored_step(log: str) -> int:
    """Return the step of the checkpoint from which the job resumed; 0 after a cold start."""
    (name,) = re.findall(r"^checkpoint restored: (?:none|name=(\d{8})-\S+ saved_at=\S+)$", log, re.MULTILINE)
    return int(name or 0)


def interrupt(job: Any, count: int, victim: int, number: int, **hyperparameters: Any) -> tuple[list[int], str]:
    """Run a job on some hosts, and send a signal to one of them after its fifth step or later."""
    processes = job.start(count, is_paced=True, **{**LONG, **hyperparameters})
    processes[0].read_until("step 5/")
    processes[victim].send_signal(number)
    return job.wait()


def assert_weights_are_trained(job: Any, method: str) -> None:
    """Check that the checkpoints of LoRA have no frozen weights."""
    (*_, path) = sorted((job.folder / "s3").glob("*/complete.json"))
    names = json.loads(path.read_text().splitlines()[0])["tensors"]
    assert names and all("lora_" in name for name in names) == (method == "lora")


@pytest.mark.parametrize(("method", "victim", "next_count"), [("full", 1, 2), ("full", 0, 1), ("lora", 1, 1)], ids=str)
def test_killed_training_gives_the_same_model(
    make_job: Any, run_straight: Any, method: str, victim: int, next_count: int
) -> None:
    straight, job = run_straight(2, **NEXT, method=method), make_job("killed")
    codes, log = interrupt(job, 2, victim, signal.SIGKILL, method=method)
    assert codes[victim] == -signal.SIGKILL and codes[1 - victim] == 1, log
    assert "perhaps because another host did" in job.read_failure(1 - victim)
    assert not list(job.folder.glob("host-*/model/*"))
    assert_weights_are_trained(job, method)
    log = job.run(next_count, **NEXT, method=method)
    assert read_restored_step(log) >= 4
    difference = compare_weights(straight.read_weights(), job.read_weights())
    if next_count == 2:
        assert difference == 0 and job.read_losses() == straight.read_losses()
    assert difference <= OTHER_BOUND
    assert job.read_losses() == pytest.approx(straight.read_losses(), abs=LOSS_BOUND)


def test_stop_of_any_host_stops_all(make_job: Any, run_straight: Any) -> None:
    """A signal on the second host: both save the same step, and resume with the same dropout."""
    straight, job = run_straight(2, **NEXT, lora_dropout=0.1), make_job("stopped")
    codes, log = interrupt(job, 2, 1, signal.SIGTERM, checkpoint_s=1_000, lora_dropout=0.1)
    assert codes == [143] * 2, log
    log = job.run(2, **NEXT, lora_dropout=0.1)
    assert read_restored_step(log) >= 5
    assert compare_weights(straight.read_weights(), job.read_weights()) == 0


def test_other_hyperparameters_start_anew(make_job: Any) -> None:
    job = make_job("job")
    interrupt(job, 1, 0, signal.SIGTERM)
    log = job.run(1, **{**NEXT, "weight_decay": 0.1})
    assert read_restored_step(log) == 0
    assert "belongs to other hyperparameters or other data; it is ignored" in log


def test_changeable_hyperparameters_resume(make_job: Any) -> None:
    job = make_job("job")
    interrupt(job, 1, 0, signal.SIGTERM)
    changes = {"strategy": "fsdp", "gradient_checkpointing": "false", "accumulation": 3, "log_steps": 7}
    assert read_restored_step(job.run(2, **{**NEXT, **changes})) >= 5


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lora_rank": 8}, "another lora_rank: 4, not 8. Use another checkpoint folder."),
        ({"method": "full"}, "another method: lora, not full. Use another checkpoint folder."),
    ],
)
def test_checkpoint_of_another_model_is_refused(make_job: Any, change: dict[str, Any], text: str) -> None:
    job = make_job("job")
    interrupt(job, 1, 0, signal.SIGTERM)
    job.start(1, **{**NEXT, **change})
    codes, log = job.wait()
    assert codes == [1], log
    assert text in job.read_failure() and "\n" not in job.read_failure()
    assert not (job.folder / "host-0/model").exists()
