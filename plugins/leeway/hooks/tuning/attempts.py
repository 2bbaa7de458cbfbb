"""Start a tuning job of a task, find the job of an earlier try, or collect the winner of a completed job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowException

from leeway.hooks.sagemaker.attempts import Attempts, Job
from leeway.hooks.sagemaker.costs import Costs, read_job_usage
from leeway.hooks.sagemaker.description import compute_billed_cost_usd, get_job_name, get_job_status, is_live
from leeway.hooks.sagemaker.job_spans import build_job_environment
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger
from leeway.hooks.training.inputs import INPUT_MEMBERS
from leeway.hooks.tuning.failures import make_error_without_winner, make_tuning_error
from leeway.hooks.tuning.finished_trials import add_summaries, count_finished_trials
from leeway.hooks.tuning.folds import read_folds
from leeway.hooks.tuning.requests import TuningTemplate, count_earlier_trials, get_number
from leeway.hooks.tuning.rounds import find_undefined_objective, read_rounds
from leeway.hooks.tuning.trials import Trial, find_best, list_summaries, list_trials
from pipelines.costs.job_records import to_training_record


class TuningAttempts(Attempts):
    """Start, find or collect a task's tuning job.

    A tuning job that failed or was stopped is continued by the next attempt, which runs only the trials that are left.

    Args:
        jobs: finds and stops the task's tuning jobs.
        s3: the Amazon provider's hook of S3.
        template: parts of the request.
        costs: checks the budgets, and writes to the ledger.
        wait_template: a wait for a job of the task, without the job's name and limits.
        log: log of the task.
    """

    def __init__(
        self, jobs: NamedJobs, s3: S3Hook, template: TuningTemplate, costs: Costs, wait_template: JobWait, log: Logger
    ) -> None:
        super().__init__(jobs, costs, wait_template, log)
        self.s3, self.template = s3, template

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs that determine the trials, for a later call of `prepare_operation` in the same try."""
        return {name: self.template.training[name] for name in INPUT_MEMBERS}

    def _has_same_inputs(self, job: Job) -> bool:
        """Return whether a tuning job has this search, and runs the trials that the earlier jobs did not finish.

        A completed tuning job may also have more trials than the plan has now: they are paid for already.
        """
        if not self.template.has_same_search(job):
            return False
        earlier_jobs = self._list_earlier_jobs(get_number(job))
        if self.template.plan.strategy == "grid":
            if get_job_status(job) == "Completed":
                # If it left points of the grid, it is not reused: the next tuning job tries them.
                return self.template.count_points_left([*earlier_jobs, self._add_summaries(job)]) == 0
            return self.template.has_same_grid(job, earlier_jobs)
        limit = job["HyperParameterTuningJobConfig"]["ResourceLimits"].get("MaxNumberOfTrainingJobs")
        if limit == self.template.count_trials_left(earlier_jobs):
            return True
        if get_job_status(job) != "Completed":
            return False
        finished_count = sum(map(count_finished_trials, [*earlier_jobs, self._add_summaries(job)]))
        return finished_count >= self.template.plan.count_trials()

    def _list_earlier_jobs(self, number: int) -> list[Job]:
        """Return the ended tuning jobs of this search before job `number`, with their trials, oldest first."""
        jobs = [self.jobs.describe(self.jobs.build_name(earlier_number)) for earlier_number in range(1, number)]
        return [
            self._add_summaries(job) for job in jobs if job and not is_live(job) and self.template.has_same_search(job)
        ]

    def _add_summaries(self, job: Job) -> Job:
        return add_summaries(job, list_summaries(self.jobs.hook.conn, get_job_name(job), self.log))

    def _make_error(self, job: Job, event: WaitEvent) -> AirflowException | None:
        trials = self._list_trials([job])
        undefined_objective = self._find_undefined_objective(trials) if get_job_status(job) == "Failed" else ""
        return make_tuning_error(job, event, trials, undefined_objective)

    def _find_undefined_objective(self, trials: Sequence[Trial]) -> str:
        """Return which trial has an objective that is not a finite number; empty if there is none."""
        trials_without_objective = [trial for trial in trials if trial.has_ended and trial.objective is None]
        return find_undefined_objective(self._logs, trials_without_objective, self.template.metric_regex, self.log)

    @property
    def _logs(self) -> Any:
        """The client of CloudWatch Logs."""
        return self.wait_template.connection.create_hook(AwsLogsHook).conn

    def _get_machine_label(self, job: Job) -> str:
        return self.template.machine.label

    def _build_wait_for_existing(self, attempts: Sequence[Job], attached_at: str) -> JobWait:
        job, is_limited = attempts[-1], self.costs.allocation.budget_usd is not None
        prices = self.costs.check_budget([self.template.machine])["prices_usd_h"] if is_limited else {}
        wait = self._build_wait(get_job_name(job), attempts[:-1], prices)
        return replace(wait, attached_at=attached_at, was_stopping=get_job_status(job) == "Stopping")

    def _prepare_next(self, attempts: Sequence[Job]) -> JobWait:
        number = len(attempts) + 1
        earlier_jobs = self._list_earlier_jobs(number)
        trials_left = self.template.count_trials_left(earlier_jobs)
        prices = self.costs.require_budget([self.template.machine], trials_left)
        name, request = self.jobs.build_name(number), self.template.build_request(earlier_jobs, number)
        if earlier_jobs:
            finished_count = max(0, self.template.plan.count_trials() - trials_left)
            last_job = get_job_name(earlier_jobs[-1])
            self.log.info(
                "%d trials had finished when %s ended, and are not run again; %d are left",
                finished_count,
                last_job,
                trials_left,
            )
        definition = request["TrainingJobDefinition"]
        # The environment is not compared as an input, so that a try with another trace finds this job, too.
        definition["Environment"] = build_job_environment(name) | definition.get("Environment", {})
        return replace(self._build_wait(name, attempts, prices), request=request)

    def _build_wait(self, name: str, earlier_attempts: Sequence[Job], prices: Mapping[str, float]) -> JobWait:
        machine, budget_usd = self.template.machine, self.costs.allocation.budget_usd
        price_usd_h = prices[machine.instance_type] if budget_usd is not None else None
        spent_usd = 0.0
        if price_usd_h is not None and earlier_attempts:
            trials = self._list_trials(earlier_attempts)
            spent_usd = sum(compute_billed_cost_usd(trial.job, price_usd_h) for trial in trials)
        return replace(
            self.wait_template,
            job_name=name,
            max_duration_s=self._compute_max_duration_s(),
            price_usd_h=price_usd_h,
            budget_usd=budget_usd,
            spent_usd=spent_usd,
        )

    def _compute_max_duration_s(self) -> int:
        """Return the longest time of a tuning job, seconds: as if each trial took its longest time."""
        plan, machine = self.template.plan, self.template.machine
        trial_s = machine.max_wait_s if machine.is_spot else machine.max_wait_s + machine.max_run_s
        batches = math.ceil(plan.count_trials() / min(plan.parallel, plan.count_trials()))
        longest_s = batches * trial_s
        return longest_s if plan.max_hours is None else min(longest_s, round(plan.max_hours * 3_600) + trial_s)

    def _build_cost_record(self, job: Job) -> dict[str, Any]:
        return to_training_record(job, [])

    def _charge(self, attempts: Sequence[Job]) -> dict[str, Any]:
        """Write the cost of each ended trial to the ledger; return the `ChargeResult`, which may have no jobs."""
        return self._charge_trials(self._list_trials(attempts))

    def _charge_trials(self, trials: Sequence[Trial]) -> dict[str, Any]:
        records = [
            {
                **self._build_cost_record(trial.job),
                "usage": read_job_usage(self.wait_template.connection, trial.job, self.log),
            }
            for trial in trials
            if trial.has_ended
        ]
        return self.costs.charge(records) if records else {"jobs": [], "cost_usd": 0.0}

    def _list_trials(self, attempts: Sequence[Job]) -> list[Trial]:
        return list_trials(self.jobs.hook.conn, attempts, self.log)

    def _build_result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        """Charge all trials, record the tuning, and return the task's result."""
        all_trials = self._list_trials(attempts)
        charge = self._charge_trials(all_trials)
        costs_usd = {entry["name"]: float(entry["cost_usd"]) for entry in charge["jobs"]}
        job_names = [get_job_name(attempt) for attempt in attempts if self.template.has_same_search(attempt)]
        trials = [trial for trial in all_trials if trial.has_ended and trial.tuning_job in job_names]
        winner = find_best(trials)
        if winner is None:
            raise make_error_without_winner(job, trials, self._find_undefined_objective(trials))
        tuning = self._record(job, job_names, trials, winner, costs_usd)
        states = [trial.state for trial in trials]
        return {
            "tuning_job": get_job_name(job),
            "tuning_job_arn": job["HyperParameterTuningJobArn"],
            "status": get_job_status(job),
            "training_job": winner.name,
            "hyperparameters": tuning["record"]["hyperparameters"],
            "objective": winner.objective,
            "trials": len(trials),
            "pruned": states.count("pruned"),
            "stopped": states.count("stopped"),
            "failed": states.count("failed"),
            "attempts": len(attempts),
            "cost_usd": charge["cost_usd"],
            "record": tuning["record"],
            "run_id": tuning["run_id"],
        }

    def _record(
        self, job: Job, job_names: Sequence[str], trials: Sequence[Trial], winner: Trial, costs_usd: Mapping[str, float]
    ) -> dict[str, Any]:
        """Run the step `record_tuning`, and return its Result."""
        space = self.template.plan.space
        rounds = read_rounds(self._logs, trials, self.template.metric_regex, self.log)
        spec = {
            "tuning_job": get_job_name(job),
            "plan": self.template.plan.model_dump(mode="json"),
            "trials": [
                trial.build_record(space, costs_usd.get(trial.name, 0.0), rounds.get(trial.name, {}))
                for trial in trials
            ],
            "earlier_trials": count_earlier_trials(self.template.parents, self.jobs.describe, job_names),
            "best": winner.name,
            **read_folds(self.s3.get_conn(), winner, self.log),
        }
        return self.costs.step_hook.run("record_tuning", spec)
