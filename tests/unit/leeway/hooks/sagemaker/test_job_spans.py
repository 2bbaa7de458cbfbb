"""Test the span of a SageMaker job: its id and attributes, and that nothing happens if tracing is off."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from airflow._shared.observability.traces import OverrideableRandomIdGenerator
from leeway.hooks.sagemaker import job_spans
from leeway.hooks.sagemaker.job_spans import build_job_environment, record_job
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

START = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
STATES = ("Starting", "Training", "Interrupted", "Training", "Completed")
JOB: dict[str, Any] = {
    "TrainingJobName": "flights-train-1",
    "TrainingJobStatus": "Completed",
    "CreationTime": START,
    "TrainingEndTime": START + dt.timedelta(seconds=50),
    "TrainingTimeInSeconds": 40,
    "BillableTimeInSeconds": 12,
    "EnableManagedSpotTraining": True,
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2},
    "HyperParameters": {"password": "tweety"},
    "Environment": {"TOKEN": "tweety"},
    "FailureReason": "tweety",
    "SecondaryStatusTransitions": [
        {"Status": status, "StartTime": START + dt.timedelta(seconds=10 * number), "StatusMessage": "tweety"}
        | ({"EndTime": START + dt.timedelta(seconds=10 * (number + 1))} if status != "Completed" else {})
        for number, status in enumerate(STATES)
    ],
}
LOG = structlog.get_logger()


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Record spans as Airflow does, within the span of a worker."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(id_generator=OverrideableRandomIdGenerator())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    with provider.get_tracer("airflow").start_as_current_span("worker.train"):
        yield exporter


def read_spans(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, list[ReadableSpan]]:
    """Return the span of the job, and those of its states."""
    *states, job = exporter.get_finished_spans()
    return job, states


def test_span_has_what_sagemaker_says_at_the_end(exporter: InMemorySpanExporter) -> None:
    record_job(JOB, LOG)
    job, states = read_spans(exporter)
    assert dict(job.attributes or {}) == {
        "leeway.job.name": "flights-train-1",
        "leeway.job.status": "Completed",
        "leeway.job.instance_type": "ml.m5.large",
        "leeway.job.instance_count": 2,
        "leeway.job.spot": True,
        "leeway.job.interruptions": 1,
        "leeway.job.training_s": 40,
        "leeway.job.billable_s": 12,
    }
    assert (job.name, job.status.status_code) == ("training_job", StatusCode.OK)
    assert (job.end_time or 0) - (job.start_time or 0) == 50 * 10**9
    assert [span.name for span in states] == [f"job.{status}" for status in STATES]
    assert {span.parent.span_id for span in states if span.parent} == {job.get_span_context().span_id}
    assert "tweety" not in "".join(span.to_json() for span in (job, *states))


def test_job_continues_the_span_that_it_gets_later(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:tweety@127.0.0.1:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=tweety")
    environment = build_job_environment("flights-train-1")
    assert environment == build_job_environment("flights-train-1") != build_job_environment("flights-train-2")
    record_job(JOB, LOG)
    context = read_spans(exporter)[0].get_span_context()
    assert environment == {
        "TRACEPARENT": f"00-{context.trace_id:032x}-{context.span_id:016x}-01",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
    }


def test_job_that_failed_has_a_span_with_an_error(exporter: InMemorySpanExporter) -> None:
    record_job({**JOB, "TrainingJobStatus": "Stopped"}, LOG)
    assert read_spans(exporter)[0].status.status_code == StatusCode.ERROR


@pytest.mark.parametrize("kind", ["Processing", "Transform"])
def test_other_jobs_have_spans_too(exporter: InMemorySpanExporter, kind: str) -> None:
    machines = {"InstanceType": "ml.c5.large", "InstanceCount": 3}
    resources = {"Processing": {"ProcessingResources": {"ClusterConfig": machines}},
                 "Transform": {"TransformResources": machines}}  # fmt: skip
    names = {f"{kind}JobName": "job-1", f"{kind}JobStatus": "Completed", f"{kind}EndTime": START}
    record_job({**names, "CreationTime": START, **resources[kind]}, LOG)
    job, states = read_spans(exporter)
    assert (job.name, states) == (f"{kind.lower()}_job", [])
    assert (job.attributes or {})["leeway.job.instance_type"] == "ml.c5.large"


def test_without_a_trace_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_spans, "_record_job", lambda *_: pytest.fail("a span was recorded"))
    assert build_job_environment("flights-train-1") == {}
    record_job(JOB, LOG)


def test_description_that_cannot_be_read_is_only_logged(
    exporter: InMemorySpanExporter, capsys: pytest.CaptureFixture[str]
) -> None:
    record_job({"TrainingJobName": "flights-train-1"}, LOG)
    assert exporter.get_finished_spans() == ()
    assert "the trace lacks job flights-train-1: KeyError" in capsys.readouterr().out


def test_an_airflow_without_the_private_function_loses_the_span_and_fails_no_task(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow._shared.observability import traces

    monkeypatch.delattr(traces, "override_ids")
    record_job(JOB, LOG)
    assert exporter.get_finished_spans() == ()
    assert "the trace lacks job flights-train-1: ImportError" in capsys.readouterr().out
