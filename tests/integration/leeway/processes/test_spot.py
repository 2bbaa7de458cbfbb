"""SpotTrainingOperator in a real Airflow (four processes and their tasks): clears, marks and kill -9."""

from __future__ import annotations

import random
import signal
import threading

import pytest

STATE = {"spot_deferred": "deferred", "spot_waiting": "running"}


@pytest.mark.parametrize("dag_id", STATE)
def test_clear_stops_the_job_and_the_next_goes_on_from_its_checkpoints(begun, never_two, until, dag_id):
    run = begun(dag_id, "train")
    with never_two(run):
        until(lambda: run.state() == STATE[dag_id], 60)
        # The job's own lines, while it runs.
        until(lambda: all(words in run.log(1) for words in ("Training since", "trained on rows wait")), 60)
        run.clear()
        until(lambda: run.status(1) == "Stopped", 60)
        until(lambda: run.works(2), 120)
        assert run.job(1)["CheckpointConfig"] == run.job(2)["CheckpointConfig"]
        until(lambda: run.state() == STATE[dag_id], 60)
        # What Airflow's processes log comes after what they do.
        until(lambda: any(words in run.log(1) for words in ("cleared or marked: stopping", "killed: stopping")), 60)
        run.gate.touch()
        until(lambda: run.state() == "success", 120)
    assert run.result()["training_job"] == f"{run.base}-2"
    assert run.result()["attempts"] == 2
    tries = range(2, run.task()["try_number"] + 1)
    until(lambda: any("after ['step-0']" in run.log(number) for number in tries), 60)


@pytest.mark.parametrize("dag_id", STATE)
@pytest.mark.parametrize("state", ["failed", "success"])
def test_mark_stops_the_job(begun, until, dag_id, state):
    run = begun(dag_id, "train")
    # Before the triggerer has begun to wait, Airflow has nobody to tell of a mark.
    until(lambda: "Training since" in run.log(1), 60)
    run.mark(state)
    until(lambda: run.status(1) == "Stopped", 60)
    assert run.state() == state
    assert list(run.jobs()) == [f"{run.base}-1"]
    until(lambda: "stopping training job" in run.log(1), 60)


def test_restart_of_the_triggerer_does_not_stop_the_job(airflow, begun, until):
    """The negative control: only a person stops a job."""
    run = begun("spot_deferred", "train")
    until(lambda: run.state() == "deferred", 60)
    process = airflow.processes["triggerer"]
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    airflow.start("triggerer")
    run.gate.touch()
    until(lambda: run.state() == "success", 120)
    assert list(run.jobs().items()) == [(f"{run.base}-1", "Completed")]
    assert run.result()["attempts"] == 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))])
def test_kills_leave_one_job_at_a_time_and_lose_no_result(airflow, begun, never_two, until, seed):
    """kill -9 of what runs tasks, of the triggerer, of the scheduler, at moments that nobody chose."""
    dice = random.Random(seed)
    run = begun("spot_deferred", "train", works=False)
    with never_two(run):
        for _ in range(4):
            threading.Event().wait(4 * dice.random())
            victim = dice.choice(["tasks", "triggerer", "scheduler"])
            if victim == "tasks":
                airflow.kill_tasks()
                airflow.kill("scheduler")  # LocalExecutor does not replace workers that were killed
                victim = "scheduler"
            else:
                airflow.kill(victim)
            airflow.start(victim)
        run.gate.touch()
        until(lambda: run.state() == "success", 240)
    assert list(run.jobs().values()) == ["Completed"]
    assert run.result()["training_job"] == f"{run.base}-1"
