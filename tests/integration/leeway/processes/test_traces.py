"""Test that a training is one trace in a real Airflow: DAG run, task, steps and SageMaker job, also after a kill.

These tests have an Airflow of their own. With tracing on, Airflow 3.3.2 sends its spans before it reports the end of a
worker. If a trigger fires before that, the scheduler takes the task for lost and starts it again, so short jobs are
tried twice. The jobs here wait until the test releases them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.tools.otlp_receiver import Collector, Span, run_collector

SECRETS = ("drydock-takes-any", "AKIADRYDOCK", "only-for-this-test")


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with run_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def airflow(start_airflow: Callable[..., Any], collector: Collector) -> Iterator[Any]:
    """Start an Airflow that sends its spans to the collector."""
    variables = {
        "AIRFLOW__TRACES__OTEL_ON": "True",
        "OTEL_TRACES_EXPORTER": "otlp_proto_http",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    with contextlib.ExitStack() as servers:
        yield start_airflow(servers, variables)


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


@pytest.mark.soak
@pytest.mark.parametrize("dag_id", ["spot_deferred", pytest.param("spot_waiting", marks=pytest.mark.soak)])
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


@pytest.mark.soak
def test_training_that_was_stopped_and_retried_is_one_trace_with_two_jobs(airflow, collector, start_run, until):
    run = start_run("spot_waiting", "train")
    airflow.drydock.stop_job(f"{run.job_base_name}-1")
    until(lambda: run.has_started(2), 250)
    run.release_file.touch()
    until(lambda: run.get_state() == "success", 250)
    trace = find_trace(collector, run, until)
    spans = {span.attributes["leeway.job.name"]: span for span in collector.select(trace=trace, name="training_job")}
    assert list(spans) == list(run.list_jobs()) == [f"{run.job_base_name}-{number}" for number in (1, 2)]
    assert {name: span.is_error for name, span in spans.items()} == dict(zip(spans, (True, False), strict=True))
    assert len({span.id for span in spans.values()}) == 2
    assert {span.parent for span in spans.values()} == {collector.select(trace=trace, name="task_run.train")[0].id}
    for number, span in enumerate(spans.values(), 1):
        check_job_span(span, run.get_job(number))
