"""Start a training job of a task, find the job of an earlier try, or collect the result of a completed job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.sdk.exceptions import AirflowException
from botocore.exceptions import BotoCoreError, ClientError

from leeway.hooks.sagemaker.attempts import Attempts, Job
from leeway.hooks.sagemaker.aws_errors import format_error_line
from leeway.hooks.sagemaker.costs import Costs, compute_spent_usd
from leeway.hooks.sagemaker.description import compute_max_duration_s
from leeway.hooks.sagemaker.job_spans import build_job_environment
from leeway.hooks.sagemaker.machines import (
    Machine,
    choose_next_machine,
    get_machine_label,
    had_no_capacity,
    list_switches,
)
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.sagemaker.request_checks import merge_config
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger
from leeway.hooks.training.failures import make_training_error
from leeway.hooks.training.input_data import build_size_variables
from leeway.hooks.training.inputs import INPUT_MEMBERS, has_same_inputs
from pipelines.costs.job_records import (
    find_data_wait_share,
    list_restored_checkpoints,
    read_choice,
    to_training_record,
)

COST_FIELDS = (
    *("training_s", "billable_s", "cost_usd", "price_usd_h"),
    *("saving", "interruptions", "lost_s", "capacity_s", "queue_s"),
)
"""Fields of `ChargeResult` that are in the task's result."""


@dataclass(frozen=True)
class RequestTemplate:
    """The parts of a request for a training job."""

    request: Mapping[str, Any]
    """The request without a name, a machine and `config`."""
    config: Mapping[str, Any]
    """The operator's `config`: more fields of the request."""
    machines: Sequence[Machine]
    """The machines to try in turn."""

    def build_request(self, machine: Machine) -> dict[str, Any]:
        """Return the request to CreateTrainingJob for a machine, without a name."""
        return merge_config({**self.request, **machine.build_request()}, self.config)


class TrainingAttempts(Attempts):
    """Start, find or collect a task's training job.

    Args:
        jobs: finds and stops the task's jobs.
        template: parts of the request.
        costs: checks the budgets, and writes to the ledger.
        logs: the Amazon provider's hook of CloudWatch Logs.
        tuning: record of the tuning that found the hyperparameters; empty if none did.
        wait_template: a wait for a job of the task, without the job's name and limits.
        log: log of the task.
    """

    def __init__(
        self,
        jobs: NamedJobs,
        template: RequestTemplate,
        costs: Costs,
        logs: AwsLogsHook,
        tuning: Mapping[str, Any],
        wait_template: JobWait,
        log: Logger,
    ) -> None:
        super().__init__(jobs, costs, wait_template, log)
        self.template, self.logs, self.tuning = template, logs, tuning

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs that determine the model, for a later call of `prepare_operation` in the same try."""
        return {name: self.template.request[name] for name in INPUT_MEMBERS}

    def _has_same_inputs(self, job: Job) -> bool:
        return has_same_inputs(job, self.template.build_request(self.template.machines[0]))

    def _make_error(self, job: Job, event: WaitEvent) -> AirflowException | None:
        return make_training_error(job, event, choose_next_machine(self.template.machines, job))

    def _get_machine_label(self, job: Job) -> str:
        return get_machine_label(job)

    def _build_wait_for_existing(self, attempts: Sequence[Job], attached_at: str) -> JobWait:
        job = attempts[-1]
        machine = replace(self.template.machines[0], instance_type=job["ResourceConfig"]["InstanceType"])
        prices = self.costs.check_budget([machine])["prices_usd_h"] if self.costs.allocation.budget_usd else {}
        return self._build_wait(job, attempts[:-1], prices, attached_at)

    def _prepare_next(self, attempts: Sequence[Job]) -> JobWait:
        matching_attempts = [job for job in attempts if self._has_same_inputs(job)]
        last_attempt = matching_attempts[-1] if matching_attempts else None
        # If there is no next machine, an earlier try failed because SageMaker had none of the machines. This try begins
        # with the first machine again.
        machine = choose_next_machine(self.template.machines, last_attempt) or self.template.machines[0]
        prices = self.costs.require_budget(self.template.machines)
        if last_attempt:
            self._log_end(last_attempt, machine)
        name, request = self.jobs.build_next_name(attempts), self.template.build_request(machine)
        # `Environment` is not one of `INPUT_MEMBERS`, so a later try with other variables finds this job, too.
        variables = build_size_variables(self.wait_template.connection, request, self.log)
        request["Environment"] = build_job_environment(name) | variables | request.get("Environment", {})
        return replace(
            self._build_wait({"TrainingJobName": name, **request}, attempts, prices, attached_at=None), request=request
        )

    def _log_end(self, job: Job, next_machine: Machine) -> None:
        values = (
            job["TrainingJobName"],
            job["TrainingJobStatus"],
            job.get("SecondaryStatus", ""),
            get_machine_label(job),
        )
        self.log.info("training job %s ended: %s (%s) on %s; its checkpoints are kept", *values)
        if get_machine_label(job) != next_machine.label:
            label = get_machine_label(job)
            reason = f"no capacity for {label}" if had_no_capacity(job) else f"the task does not name {label} any more"
            self.log.warning("%s: continuing with %s", reason, next_machine.label)

    def _build_wait(
        self, job: Job, earlier_attempts: Sequence[Job], prices: Mapping[str, float], attached_at: str | None
    ) -> JobWait:
        budget_usd = self.costs.allocation.budget_usd
        return replace(
            self.wait_template,
            job_name=str(job["TrainingJobName"]),
            max_duration_s=compute_max_duration_s(job, self.template.machines[0].max_wait_s),
            attached_at=attached_at,
            price_usd_h=prices[job["ResourceConfig"]["InstanceType"]] if budget_usd else None,
            budget_usd=budget_usd,
            spent_usd=compute_spent_usd(earlier_attempts, prices) if budget_usd else 0.0,
        )

    def _build_cost_record(self, job: Job) -> dict[str, Any]:
        """Return the record of the job. If the job's log cannot be read, leave out what comes from it, and warn."""
        name = str(job["TrainingJobName"])
        try:
            restored_checkpoints = list_restored_checkpoints(self.logs.conn, name)
            return to_training_record(job, restored_checkpoints, find_data_wait_share(self.logs.conn, name))
        except (ClientError, BotoCoreError) as error:
            self.log.warning(
                "the job's log cannot be read, so its record lacks the time that interruptions lost, and the share of "
                "the time that it waited for data: %s",
                format_error_line(error),
            )
            return to_training_record(job, restored_checkpoints=[])

    def _build_result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        charge, choice = self._charge(attempts), read_choice(job)
        model = str(job["ModelArtifacts"]["S3ModelArtifacts"])
        return {
            "training_job": job["TrainingJobName"],
            "training_job_arn": job["TrainingJobArn"],
            "status": job["TrainingJobStatus"],
            "model": model,
            # The files that the script wrote about the training: parameters, environment, metrics.
            "record": model.removesuffix("model.tar.gz") + "output.tar.gz",
            "instance_type": job["ResourceConfig"]["InstanceType"],
            "tuning": dict(self.tuning),
            "instance_choice": choice.get("instance_choice", ""),
            **{name: choice.get(name) for name in ("predicted_s", "predicted_usd")},
            "attempts": len(attempts),
            "switches": list_switches([attempt for attempt in attempts if self._has_same_inputs(attempt)]),
            **{name: charge[name] for name in COST_FIELDS},
        }
