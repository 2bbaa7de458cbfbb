"""Test SpotTrainingOperator in a real Airflow of four processes: clearing, marking and kill -9."""

from __future__ import annotations

import random
import signal
import threading

import pytest

STATE = {"spot_deferred": "deferred", "spot_waiting": "running"}


def test_clear_stops_the_job_and_the_next_resumes_from_its_checkpoints(start_run, check_one_job_at_a_time, until):
    runs = [start_run(dag_id, "train", wait_for_job=False) for dag_id in STATE]
    with check_one_job_at_a_time(runs[0]), check_one_job_at_a_time(runs[1]):
        until(lambda: [run.get_state() for run in runs] == list(STATE.values()), 60)
        # The log shows the job's lines while it runs.
        for words in ("Training since", "trained on rows wait"):
            until(lambda words=words: all(words in run.read_logs() for run in runs), 60)
        for run in runs:
            run.clear_task()
        until(lambda: [run.get_status(1) for run in runs] == ["Stopped"] * 2, 60)
        until(lambda: all(run.has_started(2) for run in runs), 250)
        for run in runs:
            assert run.get_job(1)["CheckpointConfig"] == run.get_job(2)["CheckpointConfig"]
        until(lambda: [run.get_state() for run in runs] == list(STATE.values()), 60)
        # Airflow's processes log an action after they take it.
        until(lambda: "a person set its state: stopping" in runs[0].read_logs(), 60)
        until(lambda: "killed: stopping" in runs[1].read_logs(), 60)
        for run in runs:
            run.release_file.touch()
        until(lambda: [run.get_state() for run in runs] == ["success"] * 2, 250)
    for run in runs:
        assert run.get_result()["training_job"] == f"{run.job_base_name}-2"
        assert run.get_result()["attempts"] == 2
        until(lambda run=run: "after ['step-0']" in run.read_logs(), 60)


def test_mark_stops_the_job(start_run, until):
    cases = [(dag_id, state) for dag_id in STATE for state in ("failed", "success")]
    runs = {(dag_id, state): start_run(dag_id, "train", wait_for_job=False) for dag_id, state in cases}
    # Each task is marked as soon as its job exists.
    unmarked = dict(runs)
    while unmarked:
        until(lambda: any(run.list_jobs() for run in unmarked.values()), 250)
        for case, run in list(unmarked.items()):
            if run.list_jobs():
                run.mark_task(case[1])
                del unmarked[case]
    until(lambda: {run.get_status(1) for run in runs.values()} == {"Stopped"}, 60)
    for (_, state), run in runs.items():
        assert run.get_state() == state
        assert list(run.list_jobs()) == [f"{run.job_base_name}-1"]
    until(lambda: all("stopping training job" in run.read_logs() for run in runs.values()), 60)


@pytest.mark.soak
def test_mark_before_the_start_of_the_trigger_leaves_no_job(airflow, start_run, until):
    """A triggerer that starts may start the trigger of a marked task for a moment, and with it the job."""
    airflow.kill("triggerer")
    try:
        states = ("failed", "success", "skipped")
        runs = {state: start_run("spot_deferred", "train", wait_for_job=False) for state in states}
        unmarked = start_run("spot_deferred", "train", wait_for_job=False)
        until(lambda: {run.get_state() for run in (*runs.values(), unmarked)} == {"deferred"}, 250)
        for state, run in runs.items():
            run.mark_task(state)
    finally:
        airflow.start("triggerer")
    # This is the negative control: without a mark, the trigger starts the job.
    until(lambda: unmarked.has_started(1), 250)
    until(lambda: {status for run in runs.values() for status in run.list_jobs().values()} <= {"Stopped"}, 60)
    assert [run.get_state() for run in runs.values()] == list(runs)
    unmarked.release_file.touch()
    until(lambda: unmarked.get_state() == "success", 250)
    assert list(unmarked.list_jobs().values()) == ["Completed"]


@pytest.mark.soak
def test_restart_of_the_triggerer_does_not_stop_the_job(airflow, start_run, until):
    """This is the negative control: only a person stops a job."""
    run = start_run("spot_deferred", "train")
    until(lambda: run.get_state() == "deferred", 60)
    process = airflow.processes["triggerer"]
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    airflow.start("triggerer")
    run.release_file.touch()
    until(lambda: run.get_state() == "success", 250)
    assert list(run.list_jobs().items()) == [(f"{run.job_base_name}-1", "Completed")]
    assert run.get_result()["attempts"] == 1


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (0, 1))])
def test_kills_leave_one_job_at_a_time_and_lose_no_result(airflow, start_run, check_one_job_at_a_time, until, seed):
    """SIGKILL ends the task processes, the triggerer and the scheduler at random moments."""
    rng = random.Random(seed)
    run = start_run("spot_deferred", "train", wait_for_job=False)
    with check_one_job_at_a_time(run):
        for _ in range(4):
            threading.Event().wait(4 * rng.random())
            victim = rng.choice(["tasks", "triggerer", "scheduler"])
            if victim == "tasks":
                airflow.kill_tasks()
                airflow.kill("scheduler")  # LocalExecutor does not replace workers that were killed
                victim = "scheduler"
            else:
                airflow.kill(victim)
            airflow.start(victim)
        run.release_file.touch()
        until(lambda: run.get_state() == "success", 240)
    assert list(run.list_jobs().values()) == ["Completed"]
    assert run.get_result()["training_job"] == f"{run.job_base_name}-1"
