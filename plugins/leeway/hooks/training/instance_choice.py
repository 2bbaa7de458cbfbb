"""Choose the instance type of a training with instance_type="auto", once for all tries of the task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.description import get_job_name, is_live
from leeway.hooks.training.fields import TrainingFields
from leeway.hooks.training.input_data import measure_input_bytes
from pipelines.costs.job_records import CHOICE_FIELDS, CHOICE_VARIABLE, LONGEST_TRAINING_S, read_choice
from pipelines.costs.usage.input_data import list_channels

if TYPE_CHECKING:
    from leeway.hooks.training.script_task import ScriptTask

EMPTY_VALUES = ("", "None", None)
"""Values of a field that is not set. If the DAG's param has no value, Jinja renders it to "None"."""
AUTO = "auto"
"""Value of instance_type with which Leeway chooses the type."""
MAX_CHARS = 512
"""SageMaker's limit of the length of a variable of a training job."""
MAX_REASON_CHARS = 160
"""Length of the reason in the variable: with the figures and four types, the variable stays within `MAX_CHARS`."""


def resolve_instance_type(task: ScriptTask, fields: TrainingFields) -> TrainingFields:
    """Choose the instance types if `instance_type` is "auto", and return the fields with them; else change no type.

    The choice is stored in a variable of the job. As long as the task has a job that runs, or whose types are still
    allowed, this job's choice is kept: a retry must find the job, not start another one on another type. Idempotent.

    Args:
        task: the task, which finds its jobs and runs the step `choose_instance`.
        fields: the operator's fields.

    Raises:
        AirflowFailException: a field is wrong, or no allowed type fits the limits. A retry cannot help.
        AirflowException: the step failed. A retry can help.
    """
    # If the DAG's param has no value, Jinja renders it to "None".
    deadline = "" if fields.deadline in EMPTY_VALUES else str(fields.deadline)
    fields = replace(fields, deadline=deadline)
    if fields.instance_type != AUTO:
        for name in ("deadline", "workload"):
            if getattr(fields, name):
                raise AirflowFailException(f"{name} of {task.task_label} has no effect without instance_type='auto'.")
        return fields
    allowed_types = request_checks.check_list(task.describe_field("instance_types"), fields.instance_types)
    if not allowed_types:
        raise AirflowFailException(
            f"instance_type='auto' of {task.task_label} needs instance_types: the allowed types."
        )
    choice = _find_choice(task, allowed_types) or _make_choice(task, fields, allowed_types)
    types = choice["instance_types"]
    has_fallback = fields.on_no_capacity != "fail"
    variables = {**(fields.environment or {}), CHOICE_VARIABLE: _format_choice(choice)}
    return replace(
        fields,
        instance_type=types[0],
        instance_types=types if has_fallback else None,
        environment=variables,
        # A later call in the same try gets these fields: with a named instance type, the next two must be empty.
        deadline="",
        workload=None,
    )


def _find_choice(task: ScriptTask, allowed_types: Sequence[str]) -> dict[str, Any] | None:
    """Return the choice of the task's jobs; None without a job, or if it ended and its types are not allowed now."""
    attempts = task.jobs.list_attempts()
    if not attempts:
        return None
    job = attempts[-1]
    job_type = job["ResourceConfig"]["InstanceType"]
    choice = read_choice(job) or {"instance_types": [job_type], "instance_choice": f"the type of {get_job_name(job)}"}
    types = choice.get("instance_types") or [job_type]
    is_allowed = all(any(fnmatchcase(name, pattern) for pattern in allowed_types) for name in types)
    if not (is_live(job) or is_allowed):
        return None
    task.log.info(
        "instance type of job %s is kept: %s (%s)", get_job_name(job), job_type, choice.get("instance_choice", "")
    )
    return {**choice, "instance_types": types}


def _make_choice(task: ScriptTask, fields: TrainingFields, allowed_types: Sequence[str]) -> dict[str, Any]:
    """Run the step `choose_instance`, which logs the choice with its reason."""
    workload = fields.workload or {}
    if not isinstance(workload, Mapping):
        example = '{"params": 7e9, "tokens": 1e9}'
        raise AirflowFailException(
            f"{task.describe_field('workload')} must be a mapping such as {example}: it is {workload!r}."
        )
    budget_usd = request_checks.parse_usd(task.describe_field("budget_usd"), fields.budget_usd)
    result = task.step_hook.run(
        "choose_instance",
        {
            "instance_types": allowed_types,
            "region": task.hook.conn_region_name or "us-east-1",
            "instance_count": task.parse_count_field("instance_count"),
            "spot": fields.spot,
            "max_run_s": task.parse_count_field("max_run_s", LONGEST_TRAINING_S),
            "max_wait_s": task.parse_count_field("max_wait_s"),
            "deadline": str(fields.deadline or ""),
            "budget_usd": budget_usd,
            "project": fields.project,
            "model": fields.model,
            "dag_id": task.identity["dag_id"],
            "task_id": task.identity["task_id"],
            "workload": dict(workload),
            "input_bytes": measure_input_bytes(task.connection, _list_channels(fields), task.log),
        },
    )
    return {"instance_types": result["instance_types"], **{name: result[name] for name in CHOICE_FIELDS}}


def _list_channels(fields: TrainingFields) -> Mapping[str, str] | None:
    """Return the channels that the job will have; `config` may replace the operator's channels."""
    config = fields.config or {}
    return list_channels(config) if "InputDataConfig" in config else fields.channels


def _format_choice(choice: Mapping[str, Any]) -> str:
    """Format the record of a choice as JSON that fits into a variable.

    A long reason is shortened. If that is not enough, the last types are left out.
    """
    record = {**choice, "instance_choice": str(choice.get("instance_choice") or "")[:MAX_REASON_CHARS]}
    types = list(record["instance_types"])
    while len(text := json.dumps({**record, "instance_types": types})) > MAX_CHARS and len(types) > 1:
        types.pop()
    return text
