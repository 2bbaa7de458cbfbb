"""Run the trials of a tuning: propose values, start trials, stop poor ones early, and record every result.

All state is in the folder of the tuning: Optuna's journal, and a folder for each trial with its log and checkpoints. So
after a kill at any moment, a restart reads the results of finished trials, resumes the interrupted trials with the same
values from their checkpoints, and continues with new trials.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import optuna
from optuna.trial import FrozenTrial, TrialState

from pipelines.container.local_job import explain_failure
from pipelines.container.signals import SignalRelay
from pipelines.errors import ServiceError, StorageError
from pipelines.system.log import log
from pipelines.tuning.distributions import build_distributions, suggest
from pipelines.tuning.request import Request
from pipelines.tuning.strategies import build_grid_point, build_sampler, list_rungs
from pipelines.tuning.trials.journal import count_warm_trials, list_trials
from pipelines.tuning.trials.mlflow_runs import TuningRuns
from pipelines.tuning.trials.process import LOG_FILE, TrialProcess, start_trial
from pipelines.tuning.trials.progress import describe_progress, raise_missing_objective

POLL_S = 0.05
"""Seconds between two reads of the logs of the trials."""
MAX_STARTS = 3
"""Largest number of starts of a trial whose process is ended by signals of other processes."""
MAX_FAILURES = 3
"""Number of failed trials after which a tuning without any result ends."""


@dataclass
class RunningTrial:
    """A trial that runs."""

    trial: optuna.Trial
    trial_process: TrialProcess
    seconds_before: float
    """Seconds that its earlier processes ran."""
    pending_rungs: list[int]
    """Numbers of rounds after which the trial must still be judged, ascending."""
    state: TrialState | None = None
    """Decision about the trial; its process may still have to end. None: no decision yet."""
    reason: str = ""
    """Why the trial failed, or after how many rounds it was pruned."""

    @property
    def seconds(self) -> float:
        """Seconds that all processes of the trial ran."""
        return self.seconds_before + (self.trial_process.seconds if self.trial_process.process else 0.0)


@dataclass
class Tuning:
    """Run the trials of a request in a study, and record each in MLflow if a server answers."""

    request: Request
    study: optuna.Study
    runs: TuningRuns
    prepare_report: Callable[[], object] = lambda: None
    """Called in a thread when no further trial is started and the last ones run: a core may be idle then. If it
    were called earlier, its thread could delay the trials, and could hold a lock while a process is forked."""
    running: list[RunningTrial] = field(default_factory=list)
    """The trials that run now."""
    failures: int = 0
    """Number of trials that failed in this process."""
    is_preparing: bool = False
    """Whether `prepare_report` was called."""

    def __post_init__(self) -> None:
        """Find the trials that an earlier process did not finish."""
        plan = self.request.plan
        self.distributions = build_distributions(plan.space)
        self.warm_trial_count = count_warm_trials(self.study)  # their numbers in Optuna precede those of this tuning
        self.interrupted_trials = [trial for trial in list_trials(self.study) if trial.state == TrialState.RUNNING]
        self.hours_before = self.study.user_attrs.get("hours", 0.0)
        self.started_s = time.monotonic()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.threads = max(1, cores // plan.parallel)

    def run(self) -> None:
        """Run trials until the plan's number is reached, its hours are over, or a signal arrives. Idempotent.

        Raises:
            TrainingError: the first trials all failed. A retry cannot help.
            StorageError: the disk is full. A retry can help, and resumes.
        """
        with SignalRelay() as relay:
            try:
                while self._start_trials(relay):
                    for running_trial in list(self.running):
                        self._watch(running_trial, relay)
                    time.sleep(POLL_S)
            finally:
                for running_trial in self.running:
                    running_trial.trial_process.end()
                    self._save_seconds(running_trial)

    def _start_trials(self, relay: SignalRelay) -> bool:
        """Start as many trials as may run; return whether any runs."""
        while len(self.running) < self.request.plan.parallel and not relay.has_signal:
            trial = self._choose_trial()
            if trial is None:
                if self.running and not self.is_preparing:
                    self.is_preparing = True
                    threading.Thread(target=self.prepare_report, daemon=True).start()
                break
            self.running.append(self._start(trial, relay))
        return bool(self.running)

    def _choose_trial(self) -> optuna.Trial | None:
        """Return an interrupted trial, or else a new one; None if no further trial is to be started."""
        if self.interrupted_trials:
            return self._restore_trial(self.interrupted_trials.pop(0))
        number, plan = len(list_trials(self.study)), self.request.plan
        if number >= plan.count_trials() or (plan.max_hours and self._count_hours() >= plan.max_hours):
            return None
        self._check_failures()
        self.study.sampler = build_sampler(plan, number)
        if plan.strategy == "grid" and not self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            self.study.enqueue_trial(build_grid_point(plan, number))
        return self.study.ask(self.distributions)

    def _restore_trial(self, frozen: FrozenTrial) -> optuna.Trial:
        """Return a trial that was interrupted, with its values. Propose those that it lacks because of a kill."""
        self.study.sampler = build_sampler(self.request.plan, frozen.number - self.warm_trial_count)
        trial = optuna.Trial(self.study, frozen._trial_id)
        for name, distribution in self.distributions.items():
            suggest(trial, name, distribution)
        return trial

    def _start(self, trial: optuna.Trial, relay: SignalRelay) -> RunningTrial:
        """Start or resume the process of a trial; start none if the trial was pruned before a kill."""
        number = trial.number - self.warm_trial_count
        folder = self.request.folder / "trials" / f"{number:04d}"
        attributes, log_file = trial.user_attrs, folder / LOG_FILE
        if "pruned_at" in attributes:  # the decision was made before a kill
            running_trial = RunningTrial(trial, TrialProcess(folder), attributes.get("seconds", 0.0), [])
            self._prune(running_trial, attributes["pruned_at"])
            return running_trial
        seconds = attributes.get("seconds", 0.0)
        if "started_at" in attributes and log_file.exists():  # an earlier process was killed
            seconds += max(0.0, log_file.stat().st_mtime - attributes["started_at"])
        trial.set_user_attr("seconds", seconds)
        trial.set_user_attr("started_at", time.time())
        trial.set_user_attr("starts", attributes.get("starts", 0) + 1)
        hyperparameters = {**self.request.hyperparameters, **trial.params}
        self.runs.start_trial(number, trial.params)
        trial_process = start_trial(folder, self.request.script, self.request.channels, hyperparameters, self.threads)
        if trial_process.process:
            relay.attach(trial_process.process)
        return RunningTrial(trial, trial_process, seconds, list_rungs(self.request.plan, self.request.num_round))

    def _watch(self, running_trial: RunningTrial, relay: SignalRelay) -> None:
        """Read the log of a trial, judge it, and record its result if it has ended."""
        exit_code = running_trial.trial_process.poll()
        if running_trial.state is None:
            self._judge(running_trial)
        if exit_code is None:
            if running_trial.state is None and running_trial.trial_process.seconds > self.request.plan.max_trial_s:
                self._fail(running_trial, f"it ran longer than max_trial_s, {self.request.plan.max_trial_s} s")
            return
        if running_trial.state is None:
            if relay.has_signal and exit_code:  # a signal ends this search; the next one resumes the trial
                self.running.remove(running_trial)
                self._save_seconds(running_trial)
                return
            if not self._conclude(running_trial, exit_code, relay):
                return
        self._record(running_trial)

    def _judge(self, running_trial: RunningTrial) -> None:
        """Stop the trial if its objective is undefined, or if the pruner says so after the rounds of a rung."""
        objective_log = running_trial.trial_process.log
        undefined_round = objective_log.find_undefined_round()
        if undefined_round is not None:
            self._fail(running_trial, f"the objective after round {undefined_round} was not a finite number")
            return
        while running_trial.pending_rungs and running_trial.pending_rungs[0] <= max(objective_log.rounds, default=0):
            rung = running_trial.pending_rungs.pop(0)
            if self._report_rung(running_trial, rung):
                running_trial.trial.set_user_attr("pruned_at", rung)
                self._prune(running_trial, rung)
                return

    def _report_rung(self, running_trial: RunningTrial, rung: int) -> bool:
        """Report the best objective up to a rung to Optuna; return whether the pruner stops the trial."""
        trial = running_trial.trial
        # After a kill, the journal may have the report but not the decision.
        if rung not in self.study.get_trials(deepcopy=False)[trial.number].intermediate_values:
            trial.report(running_trial.trial_process.log.find_best_until(rung), rung)
        return trial.should_prune()

    def _prune(self, running_trial: RunningTrial, rung: int) -> None:
        running_trial.state, running_trial.reason = TrialState.PRUNED, f"pruned after round {rung}"
        running_trial.trial_process.terminate()

    def _fail(self, running_trial: RunningTrial, reason: str) -> None:
        running_trial.state, running_trial.reason = TrialState.FAIL, reason
        running_trial.trial_process.terminate()

    def _conclude(self, running_trial: RunningTrial, exit_code: int, relay: SignalRelay) -> bool:
        """Decide on the result of a trial whose process has ended; return False if it was started again.

        Raises:
            StorageError: the disk is full. A retry can help.
        """
        process, objective = running_trial.trial_process, running_trial.trial_process.log.objective
        if exit_code:
            error = explain_failure(self.request.script.path.name, exit_code, process.failure_file, process.read_tail())
            if isinstance(error, StorageError):
                raise error
            if isinstance(error, ServiceError) and running_trial.trial.user_attrs["starts"] < MAX_STARTS:
                self.running.remove(running_trial)
                self._save_seconds(running_trial)
                self.running.append(self._start(running_trial.trial, relay))
                return False
            running_trial.state, running_trial.reason = TrialState.FAIL, error.message
        elif objective is None:
            running_trial.state, running_trial.reason = TrialState.FAIL, "its log never showed tuning-objective:NUMBER"
        elif not math.isfinite(objective):
            running_trial.state, running_trial.reason = TrialState.FAIL, f"its objective was {objective}"
        else:
            running_trial.state = TrialState.COMPLETE
            for rung in running_trial.pending_rungs:
                # The trial ended before these rungs: report its best for them, for comparison with other trials.
                if self._report_rung(running_trial, rung):
                    break
        return True

    def _record(self, running_trial: RunningTrial) -> None:
        """Record the result of a trial in the journal and in MLflow, and log it."""
        self.running.remove(running_trial)
        trial, process = running_trial.trial, running_trial.trial_process
        self._save_seconds(running_trial)
        trial.set_user_attr("reason", running_trial.reason)
        if running_trial.state == TrialState.FAIL:
            self.failures += 1
        elif folds := process.read_folds():
            trial.set_user_attr("folds", folds)
        value = process.log.objective if running_trial.state == TrialState.COMPLETE else None
        number = trial.number - self.warm_trial_count
        self.runs.finish_trial(
            number, running_trial.state, running_trial.reason, process.log.rounds, value, running_trial.seconds
        )
        self.study.set_user_attr("hours", self._count_hours())
        self.study.tell(trial, value, state=running_trial.state)  # last, after all else of the trial is recorded
        process.remove_checkpoints()
        result = f"{value:.5f}" if value is not None else running_trial.reason
        log.info(
            "%s", describe_progress(self.study, self.request.plan, trial, f"{result} in {running_trial.seconds:.0f} s")
        )

    def _save_seconds(self, running_trial: RunningTrial) -> None:
        """Store the seconds of a trial, and the time up to which they are counted."""
        running_trial.trial.set_user_attr("seconds", round(running_trial.seconds, 3))
        running_trial.trial.set_user_attr("started_at", time.time())

    def _check_failures(self) -> None:
        """Raise the error of a tuning whose first trials all failed."""
        if self.failures >= MAX_FAILURES and all(trial.state == TrialState.FAIL for trial in list_trials(self.study)):
            raise_missing_objective(self.study)

    def _count_hours(self) -> float:
        return float(self.hours_before + (time.monotonic() - self.started_s) / 3_600)
