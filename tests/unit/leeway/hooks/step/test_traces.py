"""Test that a step gets the trace of its task, and that it records nothing if the task's trace is not recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.context import set_current_context
from leeway.hooks.step.traces import build_trace_environment, find_task_context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import get_current_span, use_span

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


@pytest.mark.parametrize("context_carrier", [{"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}, None])
def test_span_of_the_task_is_found_within_that_of_its_process(context_carrier: dict[str, str] | None) -> None:
    """Without a carrier, as in `dag.test`, it is the span of the process."""
    task: Any = SimpleNamespace(context_carrier=context_carrier)
    worker = TracerProvider().get_tracer("test").start_span("worker")
    with set_current_context({"ti": task}), use_span(worker):
        span_context = get_current_span(find_task_context()).get_span_context()
    expected = int("2" * 16, 16) if context_carrier else worker.get_span_context().span_id
    assert span_context.span_id == expected
