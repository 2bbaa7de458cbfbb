"""Find the trace of the task, which Airflow records if `[traces]` is switched on, and pass it to the steps."""

from __future__ import annotations

from contextlib import suppress

from airflow.sdk import get_current_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


def build_trace_environment() -> dict[str, str]:
    """Return TRACEPARENT and TRACESTATE of the span in which this process works; empty if there is none.

    TRACEPARENT also says whether the trace is recorded. If it is not, the step records nothing.
    """
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}


def find_task_context() -> Context:
    """Return the context of the task's span, which lasts from the task's start to its end; without it, the current one.

    The current span is that of this process. A task that waits in the triggerer has two processes: one
    before the wait, and one after it.
    """
    carrier = None
    with suppress(Exception):  # outside of a task of Airflow
        carrier = getattr(get_current_context()["ti"], "context_carrier", None)
    current_context = trace.set_span_in_context(trace.get_current_span())
    return TraceContextTextMapPropagator().extract(carrier, current_context) if carrier else current_context
