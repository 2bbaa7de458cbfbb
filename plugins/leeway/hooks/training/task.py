"""Check the fields of a training task, upload its inputs, and build its request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.aws_errors import raise_airflow_errors
from leeway.hooks.sagemaker.machines import NO_CAPACITY_POLICIES, Machine, list_machines_to_try
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.training.attempts import RequestTemplate, TrainingAttempts
from leeway.hooks.training.distribution import build_distribution_settings
from leeway.hooks.training.fields import TrainingFields
from leeway.hooks.training.inputs import TrainingJobs
from leeway.hooks.training.instance_choice import EMPTY_VALUES, resolve_instance_type
from leeway.hooks.training.queue.attempts import QueuedAttempts
from leeway.hooks.training.queue.job_queue import QueueTarget, find_queue
from leeway.hooks.training.queue.queued_jobs import QueuedJobs
from leeway.hooks.training.queue.wait import BATCH_HOOK
from leeway.hooks.training.script_task import ScriptTask


class TrainingTask(ScriptTask):
    """One task that trains a model."""

    jobs_class = TrainingJobs
    fields: TrainingFields

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.queue_name:
            batch_hook = self.connection.create_hook(BATCH_HOOK)
            self.jobs: NamedJobs = QueuedJobs(self.hook, self.log, self.jobs.base, batch_hook, self.queue_name)

    @property
    def queue_name(self) -> str:
        """Name or ARN of the queue; empty if there is none."""
        # If the DAG's param has no value, Jinja renders it to "None".
        return "" if self.fields.job_queue in EMPTY_VALUES else str(self.fields.job_queue)

    def prepare_operation(self, inputs: Mapping[str, Any] | None = None) -> TrainingAttempts:
        """Check the fields, upload the code and the channels, and return the attempts; see `AwsTask`."""
        target = self._find_queue_target()
        self.fields = resolve_instance_type(self, self.fields)
        machines, costs = self._list_machines(), self.build_costs()
        request = self.build_request(self.bucket, inputs or self.upload_inputs())
        template = RequestTemplate(request, self.fields.config or {}, machines)
        logs = self.connection.create_hook(AwsLogsHook)
        tuning = self.fields.tuning or {}
        arguments = (self.jobs, template, costs, logs, tuning, self.build_wait_template(), self.log)
        if target is None:
            return TrainingAttempts(*arguments)
        return QueuedAttempts(target, self.parse_count_field("max_queue_s"), *arguments)

    def build_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of section `train`, the tuning, the operator and `distribution`.

        If several of them give a value, the last one in this order counts.
        """
        fields = self.fields
        settings = build_distribution_settings(fields.distribution, self._list_machines()[0].instance_type)
        values, tuned_values = self.load_section("train").get("hyperparameters", {}), self._get_tuned_hyperparameters()
        return {**values, **tuned_values, **(fields.hyperparameters or {}), **settings}

    def check_request(self, bucket: str, draft: Mapping[str, Any]) -> None:
        """Check the request before anything is uploaded; see `ScriptTask.check_request`."""
        machines = self._list_machines()
        template = RequestTemplate(self.build_request(bucket, draft), self.fields.config or {}, machines)
        request = template.build_request(machines[0])
        shape = self.hook.conn.meta.service_model.operation_model("CreateTrainingJob").input_shape
        request_checks.check_shape({"TrainingJobName": self.jobs.build_name(1), **request}, shape)
        request_checks.check_checkpoint_folder(request, bucket)

    def list_sharded_channels(self) -> Sequence[str]:
        """Return the names of the channels whose objects are divided among the hosts."""
        names = list(self.fields.sharded_channels or [])
        unknown_names = ", ".join(str(name) for name in names if name not in self.fields.channels)
        if unknown_names:
            raise AirflowFailException(
                f"sharded_channels of {self.task_label} names channels that the task does not have: {unknown_names}."
            )
        return names

    def _find_queue_target(self) -> QueueTarget | None:
        """Return where the jobs are submitted; None without a queue."""
        share = "" if self.fields.share in EMPTY_VALUES else str(self.fields.share)
        if not self.queue_name:
            if share:
                raise AirflowFailException(f"share of {self.task_label} has no effect without job_queue=.")
            return None
        with raise_airflow_errors("AWS Batch"):
            queue = find_queue(self.connection.create_hook(BATCH_HOOK).conn, self.queue_name)
        return QueueTarget(queue, queue.build_share_fields(share), self.fields.priority)

    def _list_machines(self) -> list[Machine]:
        """Return the machines to try in turn."""
        fields, policy = self.fields, self.fields.on_no_capacity
        types = request_checks.check_instance_types(
            self.task_label, fields.instance_type, fields.instance_types, NO_CAPACITY_POLICIES, policy
        )
        return list_machines_to_try(self.build_machine(types[0]), types, policy)

    def _get_tuned_hyperparameters(self) -> Mapping[str, Any]:
        values = (self.fields.tuning or {}).get("hyperparameters", {})
        if self.fields.tuning and not values:
            raise AirflowFailException(
                f'tuning of {self.task_label} has no hyperparameters: pass `.output["record"]` of a TuningOperator.'
            )
        return dict(values)
