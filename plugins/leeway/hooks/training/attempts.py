"""One task's training over all its tries: machines, budgets and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.sdk.exceptions import AirflowException
from botocore.exceptions import BotoCoreError, ClientError

from leeway.hooks.sagemaker.attempts import Attempts, Job
from leeway.hooks.sagemaker.aws_errors import line
from leeway.hooks.sagemaker.costs import Costs, spent_usd
from leeway.hooks.sagemaker.description import longest_s
from leeway.hooks.sagemaker.machines import Machine, following, label_of, switches
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.sagemaker.request_checks import merged
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger
from leeway.hooks.training.failures import failure_of
from leeway.hooks.training.inputs import INPUTS, is_same
from pipelines.costs.job_records import record, restored

FIGURES = ("training_s", "billable_s", "cost_usd", "price_usd_h", "saving", "interruptions", "lost_s", "capacity_s")
"""Of `ChargeResult`, what the task's result says."""


@dataclass(frozen=True)
class Asked:
    """What a task asks for: the request without its machine, what goes over it, and the machines to try in turn."""

    request: Mapping[str, Any]
    config: Mapping[str, Any]
    rungs: Sequence[Machine]

    def on(self, machine: Machine) -> dict[str, Any]:
        """The request to CreateTrainingJob, without a name."""
        return merged({**self.request, **machine.request()}, self.config)


class TrainingAttempts(Attempts):
    """Goes on with a task's training, from wherever it is.

    Args:
        jobs: the task's jobs.
        asked: what the task asks for.
        costs: the budgets and the ledger.
        logs: the provider's hook to CloudWatch Logs.
        blank: how a job of the task is watched, without its name and bounds.
        log: where decisions are told.
    """

    def __init__(
        self, jobs: NamedJobs, asked: Asked, costs: Costs, logs: AwsLogsHook, blank: JobWait, log: Logger
    ) -> None:
        super().__init__(jobs, costs, blank, log)
        self.asked, self.logs = asked, logs

    @property
    def inputs(self) -> dict[str, Any]:
        """What decides the model, for a later call in the same try."""
        return {name: self.asked.request[name] for name in INPUTS}

    def _is_ours(self, job: Job) -> bool:
        return is_same(job, self.asked.on(self.asked.rungs[0]))

    def _error(self, job: Job, event: WaitEvent) -> AirflowException | None:
        return failure_of(job, event, following(self.asked.rungs, job))

    def _where(self, job: Job) -> str:
        return label_of(job)

    def _watch_there(self, attempts: Sequence[Job], attached_at: str) -> JobWait:
        job = attempts[-1]
        here = replace(self.asked.rungs[0], instance_type=job["ResourceConfig"]["InstanceType"])
        prices = self.costs.asked([here])["prices_usd_h"] if self.costs.account.budget_usd else {}
        return self._watch(job, attempts[:-1], prices, attached_at)

    def _started(self, attempts: Sequence[Job]) -> JobWait | None:
        """The wait for a new job; None where another process started one meanwhile."""
        before = [job for job in attempts if self._is_ours(job)]
        last = before[-1] if before else None
        # Past the last rung only a person's clear or a retry leads: the capacity may be back.
        machine = following(self.asked.rungs, last) or self.asked.rungs[0]
        prices = self.costs.allow(self.asked.rungs)
        if last:
            text = (last["TrainingJobName"], last["TrainingJobStatus"], last.get("SecondaryStatus", ""), label_of(last))
            self.log.info("training job %s ended: %s (%s) on %s; its checkpoints stay", *text)
            if label_of(last) != machine.label:
                self.log.warning("no capacity for %s: going on with %s", label_of(last), machine.label)
        name, request = self.jobs.name(len(attempts) + 1), self.asked.on(machine)
        if not self.jobs.create(name, request):
            return None
        return self._watch({"TrainingJobName": name, **request}, attempts, prices, None)

    def _watch(self, job: Job, before: Sequence[Job], prices: Mapping[str, float], attached_at: str | None) -> JobWait:
        budget_usd = self.costs.account.budget_usd
        return replace(
            self.blank,
            job_name=str(job["TrainingJobName"]),
            longest_s=longest_s(job, self.asked.rungs[0].max_wait_s),
            attached_at=attached_at,
            price_usd_h=prices[job["ResourceConfig"]["InstanceType"]] if budget_usd else None,
            budget_usd=budget_usd,
            spent_usd=spent_usd(before, prices) if budget_usd else 0.0,
        )

    def _record(self, job: Job) -> dict[str, Any]:
        return record(job, self._restored(job))

    def _restored(self, job: Job) -> list[dict[str, str]]:
        try:
            return restored(self.logs.conn, str(job["TrainingJobName"]))
        except (ClientError, BotoCoreError) as error:
            self.log.warning("the job's log cannot be read, so lost work is not known: %s", line(error))
            return []

    def _result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        cost = self._charged(attempts)
        model = str(job["ModelArtifacts"]["S3ModelArtifacts"])
        ours = [one for one in attempts if self._is_ours(one)]
        return {
            "training_job": job["TrainingJobName"],
            "training_job_arn": job["TrainingJobArn"],
            "status": job["TrainingJobStatus"],
            "model": model,
            "record": model.removesuffix("model.tar.gz") + "output.tar.gz",
            "instance_type": job["ResourceConfig"]["InstanceType"],
            "attempts": len(attempts),
            "switches": switches(ours),
            **{name: cost[name] for name in FIGURES},
        }
