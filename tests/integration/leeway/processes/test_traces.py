"""Test that a training is one trace in a real Airflow: DAG run, task, steps and SageMaker job, also after a kill."""

from __future__ import annotations

import pytest

from tests.tools.otlp_receiver import Collector, Span

SECRETS = ("drydock-takes-any", "AKIADRYDOCK", "only-for-this-test")


def find_trace(collector: Collector, run, until) -> str:
    """Wait for the span of a DAG run and for the span of its job, and return the id of their trace."""

    def list_ends() -> list[Span]:
        spans = collector.select(name=f"dag_run.{run.dag_id}")
        return [span for span in spans if span.attributes["airflow.dag_run.run_id"] == run.run_id]

    until(list_ends, 60)
    (dag_run,) = list_ends()
    until(lambda: collector.select(trace=dag_run.trace, name="training_job"), 60)
    return dag_run.trace


def check_job_span(span: Span, job: dict) -> None:
    assert span.attributes == {
        "leeway.job.name": job["TrainingJobName"],
        "leeway.job.status": job["TrainingJobStatus"],
        "leeway.job.instance_type": "ml.m5.large",
        "leeway.job.instance_count": 1,
        "leeway.job.spot": True,
        "leeway.job.interruptions": 0,
        "leeway.job.training_s": job["TrainingTimeInSeconds"],
        "leeway.job.billable_s": job["BillableTimeInSeconds"],
    }
    assert span.start_ns == pytest.approx(job["CreationTime"].timestamp() * 1e9, abs=1e6)
    assert span.end_ns == pytest.approx(job["TrainingEndTime"].timestamp() * 1e9, abs=1e6)


@pytest.mark.parametrize("dag_id", ["spot_deferred", "spot_waiting"])
def test_training_whose_processes_are_killed_is_one_trace(airflow, collector, start_run, until, dag_id):
    """The worker and the triggerer are killed while the job runs; the next ones attach to the job."""
    run = start_run(dag_id, "train")
    until(lambda: run.get_state() in ("deferred", "running"), 60)
    airflow.kill_tasks()
    for component in ("scheduler", "triggerer"):
        airflow.kill(component)
        airflow.start(component)
    run.release_file.touch()
    until(lambda: run.get_state() == "success", 240)
    trace = find_trace(collector, run, until)
    job = run.get_job(1)
    assert list(run.list_jobs()) == [job["TrainingJobName"]]

    dag_run = collector.find(trace=trace, name=f"dag_run.{dag_id}")
    assert dag_run.parent == ""
    tasks = collector.select(trace=trace, name="task_run.train")
    assert {(task.id, task.parent) for task in tasks} == {(tasks[0].id, dag_run.id)}
    workers = collector.select(trace=trace, name="worker.train")
    assert {worker.parent for worker in workers} == {tasks[0].id}
    job_span = collector.find(trace=trace, name="training_job")
    assert job_span.parent == tasks[0].id
    check_job_span(job_span, job)
    states = [span for span in collector.spans if span.parent == job_span.id]
    assert [f"job.{state['Status']}" for state in job["SecondaryStatusTransitions"]] == [span.name for span in states]
    charge = collector.find(trace=trace, name="step.charge")
    assert charge.parent in {worker.id for worker in workers}
    assert charge.attributes == {"leeway.outcome": "done"}
    # The script can continue the job's span: it has the id before SageMaker has the job.
    assert job["Environment"]["TRACEPARENT"] == f"00-{trace}-{job_span.id}-01"
    assert job["Environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == collector.url
    assert not any(secret.encode() in body for secret in SECRETS for body in collector.bodies)


def test_two_runs_are_two_traces(airflow, collector, start_run, until):
    runs = [start_run("spot_deferred", "train", wait_for_job=False, mode="ok") for _ in range(2)]
    until(lambda: [run.get_state() for run in runs] == ["success"] * 2, 120)
    traces = [find_trace(collector, run, until) for run in runs]
    assert len(set(traces)) == 2
    for trace, run in zip(traces, runs, strict=True):
        span = collector.find(trace=trace, name="training_job")
        assert span.attributes["leeway.job.name"] == f"{run.job_base_name}-1"


def test_job_that_crashed_has_a_span_without_the_reason(airflow, collector, start_run, until):
    run = start_run("spot_deferred", "train", wait_for_job=False, mode="crash")
    until(lambda: run.get_state() == "failed", 120)
    trace = find_trace(collector, run, until)
    span = collector.find(trace=trace, name="training_job")
    assert (span.is_error, span.attributes["leeway.job.status"]) == (True, "Failed")
    assert "the script failed" in run.get_job(1)["FailureReason"]
    assert "the script failed" not in str(span)
