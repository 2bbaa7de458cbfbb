"""Record each ended SageMaker job, with its states, as a span in the trace of the task that collects the job."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, StatusCode

from leeway.hooks.sagemaker.description import get_job_name, get_job_status, get_kind_label
from leeway.hooks.step.hook import Logger
from leeway.hooks.step.traces import find_task_context
from pipelines.costs.job_records import get_end_time

PUBLIC_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME")
"""Environment variables that a job gets from Airflow. They are visible in the job's description. So the variables that
set request headers, which contain credentials, are not among them."""
ATTRIBUTES = {"TrainingTimeInSeconds": "training_s", "BillableTimeInSeconds": "billable_s"}
"""Maps each field of a description to its attribute of the span."""


def build_job_environment(job_name: str) -> dict[str, str]:
    """Build the variables with which a job records spans below its own; {} if the task's trace is not recorded.

    `record_job` records the job's own span after its end. Its id is computed from the trace and the job's name, so it
    is known before the job exists.
    """
    task_span = _get_span_context(find_task_context())
    if not task_span.trace_flags.sampled:
        return {}
    variables = {name: os.environ.get(name, "") for name in PUBLIC_VARIABLES}
    # An address with a login or a query may contain credentials.
    public_variables = {name: value for name, value in variables.items() if value and not set(value) & {"@", "?"}}
    span_id = _compute_span_id(task_span, job_name)
    return {**public_variables, "TRACEPARENT": f"00-{task_span.trace_id:032x}-{span_id:016x}-01"}


def record_job(job: Mapping[str, Any], log: Logger, attempt_name: str = "") -> None:
    """Record the span of an ended job, from its creation to its end, below the task's span. An error is only logged.

    Args:
        job: SageMaker's description of the job.
        log: log of the task.
        attempt_name: name with which `build_job_environment` was called; empty: the job's name.
    """
    try:
        context = find_task_context()
        if _get_span_context(context).trace_flags.sampled:
            _record_job(job, context, attempt_name or get_job_name(job))
    except Exception as error:
        log.warning("the trace lacks job %s: %s", get_job_name(job), type(error).__name__)


def _record_job(job: Mapping[str, Any], context: Context, attempt_name: str) -> None:
    # With this function, Airflow 3.3.2 sets the id of a span. The function is private: if another Airflow lacks it,
    # the trace has no spans of jobs, and no task fails.
    from airflow._shared.observability.traces import override_ids

    tracer, task_span = trace.get_tracer("leeway"), _get_span_context(context)
    name, start = f"{get_kind_label(job)}_job", _to_ns(job["CreationTime"])
    with override_ids(task_span.trace_id, _compute_span_id(task_span, attempt_name)):
        span = tracer.start_span(name, context, attributes=_describe_job(job), start_time=start)
    for state in job.get("SecondaryStatusTransitions", []):
        context_of_job = trace.set_span_in_context(span, context)
        child = tracer.start_span(f"job.{state['Status']}", context_of_job, start_time=_to_ns(state["StartTime"]))
        child.end(_to_ns(state.get("EndTime") or get_end_time(job)))
    span.set_status(StatusCode.OK if get_job_status(job) == "Completed" else StatusCode.ERROR)
    span.end(_to_ns(get_end_time(job)))


def _describe_job(job: Mapping[str, Any]) -> dict[str, str | int | bool]:
    """Return the attributes of a job's span, without hyperparameters, addresses and the reason of a failure."""
    resources = job.get("ResourceConfig") or job.get("TransformResources") or {}
    resources = resources or job.get("ProcessingResources", {}).get("ClusterConfig", {})
    states = [state["Status"] for state in job.get("SecondaryStatusTransitions", [])]
    values = {
        "name": get_job_name(job),
        "status": get_job_status(job),
        "instance_type": resources.get("InstanceType", ""),
        "instance_count": resources.get("InstanceCount", 1),
        "spot": bool(job.get("EnableManagedSpotTraining", False)),
        "interruptions": states.count("Interrupted"),
        **{name: job[field] for field, name in ATTRIBUTES.items() if field in job},
    }
    return {f"leeway.job.{name}": value for name, value in values.items()}


def _get_span_context(context: Context) -> SpanContext:
    return trace.get_current_span(context).get_span_context()


def _compute_span_id(task_span: SpanContext, job_name: str) -> int:
    return int(hashlib.sha256(f"{task_span.trace_id:032x}/{job_name}".encode()).hexdigest()[:16], 16)


def _to_ns(moment: dt.datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000
