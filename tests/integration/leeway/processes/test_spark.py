"""Test SparkPreprocessOperator in a real Airflow of four processes: clearing, kill -9, and the example of the docs."""

from __future__ import annotations

import pytest

STATE = {"spark_deferred": "deferred", "spark_waiting": "running"}


@pytest.mark.soak
def test_run_succeeds_and_a_training_reads_its_channels(start_run, until):
    run = start_run("spark_deferred", "preprocess", mode="")
    until(lambda: run.get_state() in ("success", "failed"), 300)
    assert run.get_state() == "success", run.read_logs()[-3_000:]
    result = run.get_result()
    assert result["attempts"] == 1
    assert result["processing_job"] == f"{run.job_base_name}-1"
    # The end of the log appears after the end of the task.
    until(lambda: "building window --engine spark" in run.read_logs(), 60)
    train = run.select_task("train")
    until(lambda: train.get_state() in ("success", "failed"), 300)
    assert train.get_state() == "success", train.read_logs()[-3_000:]
    inputs = train.get_job(1)["InputDataConfig"]
    uris = {channel["ChannelName"]: channel["DataSource"]["S3DataSource"]["S3Uri"] for channel in inputs}
    assert result["channels"].items() <= uris.items()
    until(lambda: "trained on window train" in train.read_logs(), 60)


@pytest.mark.soak
def test_kills_leave_one_job_and_lose_no_result(airflow, start_run, check_one_job_at_a_time, until):
    """SIGKILL ends the triggerer, the scheduler and its workers while each task has a running job."""
    runs = [start_run(dag_id, "preprocess", wait_for_job=False) for dag_id in STATE]
    until(lambda: [run.get_state() for run in runs] == list(STATE.values()), 60)
    until(lambda: all("building window" in run.read_logs() for run in runs), 60)
    with check_one_job_at_a_time(runs[0]), check_one_job_at_a_time(runs[1]):
        airflow.kill("triggerer")
        airflow.kill_tasks()
        airflow.kill("scheduler")
        for part in ("scheduler", "triggerer"):
            airflow.start(part)
        # Airflow notices that the killed worker's task is gone; its next try attaches to the job.
        until(lambda: runs[1].get_task()["try_number"] > 1 and runs[1].get_state() == "running", 250)
        runs[0].release_file.touch()
        until(lambda: [run.get_state() for run in runs] == ["success"] * 2, 250)
    for run in runs:
        assert run.list_jobs() == {f"{run.job_base_name}-1": "Completed"}
        assert run.get_result()["attempts"] == 1


@pytest.mark.soak
def test_clear_stops_the_job_and_the_next_try_starts_another(start_run, check_one_job_at_a_time, until):
    runs = [start_run(dag_id, "preprocess", wait_for_job=False) for dag_id in STATE]
    until(lambda: [run.get_state() for run in runs] == list(STATE.values()), 60)
    # The log shows the job's lines while it runs.
    until(lambda: all("building window" in run.read_logs() for run in runs), 60)
    with check_one_job_at_a_time(runs[0]), check_one_job_at_a_time(runs[1]):
        for run in runs:
            run.clear_task()
        until(lambda: [run.get_status(1) for run in runs] == ["Stopped"] * 2, 60)
        until(lambda: all(run.has_started(2) for run in runs), 250)
        runs[0].release_file.touch()
        until(lambda: [run.get_state() for run in runs] == ["success"] * 2, 250)
    until(lambda: "the task was cleared, or a person set its state: stopping processing job" in runs[0].read_logs(), 60)
    until(lambda: "the task was killed: stopping processing job" in runs[1].read_logs(), 60)
    for run in runs:
        assert run.get_result()["processing_job"] == f"{run.job_base_name}-2"
        assert run.get_result()["attempts"] == 2
