"""SparkPreprocessOperator in a real Airflow (four processes and their tasks): a clear, kill -9, and what docs show."""

from __future__ import annotations

STATE = {"spark_deferred": "deferred", "spark_waiting": "running"}


def test_it_runs_through_and_a_training_takes_its_channels(begun, until):
    run = begun("spark_deferred", "preprocess", mode="")
    until(lambda: run.state() == "success", 120)
    told = run.result()
    assert told["attempts"] == 1
    assert told["processing_job"] == f"{run.base}-1"
    until(lambda: "building window --engine spark" in run.log(1), 60)  # the end of a log comes after that of the task
    train = run.of("train")
    until(lambda: train.state() == "success", 120)
    inputs = train.job(1)["InputDataConfig"]
    places = {one["ChannelName"]: one["DataSource"]["S3DataSource"]["S3Uri"] for one in inputs}
    assert told["channels"].items() <= places.items()
    until(lambda: "trained on window train" in train.log(1), 60)


def test_kills_leave_one_job_and_lose_no_result(airflow, begun, never_two, until):
    """kill -9 of the triggerer, and of the workers with their scheduler, while a job runs for each."""
    runs = [begun(dag_id, "preprocess") for dag_id in STATE]
    until(lambda: [run.state() for run in runs] == list(STATE.values()), 60)
    until(lambda: all("building window" in run.log(1) for run in runs), 60)
    with never_two(runs[0]), never_two(runs[1]):
        airflow.kill("triggerer")
        airflow.kill_tasks()
        airflow.kill("scheduler")
        for part in ("scheduler", "triggerer"):
            airflow.start(part)
        # The killed worker's task is missed, and its next try finds the job.
        until(lambda: runs[1].task()["try_number"] > 1 and runs[1].state() == "running", 120)
        runs[0].gate.touch()
        until(lambda: [run.state() for run in runs] == ["success"] * 2, 120)
    for run in runs:
        assert run.jobs() == {f"{run.base}-1": "Completed"}
        assert run.result()["attempts"] == 1


def test_clear_stops_the_job_and_the_next_follows(begun, never_two, until):
    runs = [begun(dag_id, "preprocess") for dag_id in STATE]
    until(lambda: [run.state() for run in runs] == list(STATE.values()), 60)
    until(lambda: all("building window" in run.log(1) for run in runs), 60)  # the job's own lines, while it runs
    with never_two(runs[0]), never_two(runs[1]):
        for run in runs:
            run.clear()
        until(lambda: [run.status(1) for run in runs] == ["Stopped"] * 2, 60)
        until(lambda: all(run.works(2) for run in runs), 120)
        runs[0].gate.touch()
        until(lambda: [run.state() for run in runs] == ["success"] * 2, 120)
    until(lambda: "the task was cleared or marked: stopping processing job" in runs[0].log(1), 60)
    until(lambda: "the task was killed: stopping processing job" in runs[1].log(1), 60)
    for run in runs:
        assert run.result()["processing_job"] == f"{run.base}-2"
        assert run.result()["attempts"] == 2
