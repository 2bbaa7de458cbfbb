"""Test that a step gets the trace of its task, and that it records nothing if the task's trace is not recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.context import set_current_context
from leeway.hooks.step.traces import build_trace_environment, find_task_context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import INVALID_SPAN, get_current_span, use_span

from pipelines.system.traces import record_span
from tests.tools.otlp_receiver import run_collector


def test_without_a_span_there_is_nothing_to_pass() -> None:
    assert build_trace_environment() == {}


def test_span_is_passed_as_traceparent() -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("worker.train") as span:
        context = span.get_span_context()
        flags = f"{context.trace_flags:02x}"
        assert build_trace_environment() == {
            "TRACEPARENT": f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags}"
        }
    assert context.trace_flags.sampled


@pytest.mark.parametrize(("options", "names"), [({}, ["step"]), ({"sampler": ALWAYS_OFF}, [])])
def test_step_records_what_its_task_records(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], names: list[str]
) -> None:
    """A variable of Airflow's own process does not count."""
    monkeypatch.setenv("TRACEPARENT", f"00-{'1' * 32}-{'2' * 16}-01")
    with run_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with TracerProvider(**options).get_tracer("test").start_as_current_span("worker.train"):
            for name, value in build_trace_environment().items():
                monkeypatch.setenv(name, value)
            with record_span("step"):
                pass
    assert [span.name for span in collector.spans] == names


@pytest.mark.parametrize("has_worker_span", [True, False])
def test_task_without_a_process_span_passes_its_own(has_worker_span: bool) -> None:
    """So it is in `dag.test`. The task's context is that of the running task."""
    traceparent = f"00-{'1' * 32}-{'2' * 16}-01"
    task = SimpleNamespace(context_carrier={"traceparent": traceparent})
    span = TracerProvider().get_tracer("test").start_span("worker") if has_worker_span else INVALID_SPAN
    with set_current_context({"ti": task}), use_span(span):
        assert (build_trace_environment()["TRACEPARENT"] == traceparent) is not has_worker_span
        assert get_current_span(find_task_context()).get_span_context().trace_id == int("1" * 32, 16)
