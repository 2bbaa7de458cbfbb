"""Record a SageMaker tuning job that has ended: return its record with the winner, and create the job's MLflow run.

This run is the parent of the runs of the trials. It gets the same report, with charts, that the step `tune` logs.

TuningOperator runs this step in a process of its own, so that Airflow's process needs no MLflow. Idempotent.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from pipelines.contract import Result, Spec
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.record import TuningRecord
from pipelines.tuning.trial_runs import TrainedTrial


class RecordTuningSpec(Spec):
    """The trials of a tuning, and which of them is the best."""

    model_field: ClassVar[str] = ""  # the spec names no model

    tuning_job: str
    """Name of the tuning job; if there were several attempts, of the last one."""
    plan: PlanSpec
    """What was searched, and how."""
    trials: list[TrainedTrial] = Field(min_length=1)
    """Trials of all attempts, oldest first."""
    best: str
    """Name of the training job with the best objective."""
    earlier_trials: int = Field(default=0, ge=0)
    """Number of trials of other tasks' tuning jobs from which this search learned (warm start)."""
    metric: str = "loss"
    """Name of the objective."""
    fold_losses: list[float] = Field(default_factory=list)
    """Loss of the best trial on each fold; empty: not known."""

    @model_validator(mode="after")
    def _check_best_trial(self) -> RecordTuningSpec:
        # The last objective of a trial that was pruned or stopped is that of fewer rounds: it cannot be compared.
        candidates = [trial for trial in self.trials if trial.state == "complete" and trial.objective is not None]
        if self.best not in [trial.name for trial in candidates]:
            raise ValueError(f"no complete trial with an objective has the name {self.best}")
        return self


class RecordTuningResult(Result):
    """The record of a tuning, for the refit of its winner, and the MLflow run of the tuning."""

    record: TuningRecord
    """The tuning, for the argument `tuning` of SpotTrainingOperator."""
    run_id: str
    """Id of the MLflow run of the tuning, whose children are the runs of the trials; empty if there is none."""


def run(spec: RecordTuningSpec) -> RecordTuningResult:
    """Make the runs of the trials children of one run, and return the record. An error of MLflow is only logged."""
    from pipelines.system.log import log
    from pipelines.tuning.trial_runs import nest_runs

    record = _build_record(spec)
    best_values = {f"best.{name}": value for name, value in record.hyperparameters.items()}
    params = {"strategy": spec.plan.strategy, **best_values}
    run_id = nest_runs(
        *(spec.tuning_job, spec.trials, params, spec.best, lambda folder: _write_report(folder, spec)),
        earlier_trials=spec.earlier_trials,
    )
    log_values = (spec.tuning_job, record.trials, record.metric, record.objective, spec.best)
    log.info("%s: %d trials, best %s %.5f (%s)", *log_values)
    return RecordTuningResult(record=record, run_id=run_id)


def _build_record(spec: RecordTuningSpec) -> TuningRecord:
    winner = next(trial for trial in spec.trials if trial.name == spec.best)
    assert winner.objective is not None  # _check_best_trial refuses any other
    return TuningRecord(
        name=spec.tuning_job,
        trials=len(spec.trials),
        earlier_trials=spec.earlier_trials,
        stopped=sum(trial.state == "stopped" for trial in spec.trials),
        strategy=spec.plan.strategy,
        metric=spec.metric,
        objective=winner.objective,
        fold_losses=spec.fold_losses,
        hyperparameters=winner.hyperparameters,
    )


def _write_report(folder: Path, spec: RecordTuningSpec) -> None:
    """Write the table of the trials, the winner, and the report with its charts, to a folder."""
    from pipelines.system.files import write_json
    from pipelines.tuning.report.page import write_report
    from pipelines.tuning.report.results import TrialResult, TuningResult, build_best, write_results
    from pipelines.tuning.warm_start import BEST_FILE

    trials = [
        TrialResult(
            number=number,
            state=trial.state,
            objective=trial.objective if trial.state == "complete" else None,
            rounds=trial.rounds,
            seconds=trial.seconds,
            parameters=dict(trial.hyperparameters),
            folds=[],
            metric=spec.metric,
            reason=trial.explanation,
            cost_usd=trial.cost_usd,
        )
        for number, trial in enumerate(spec.trials)
    ]
    winner = next(result for result, trial in zip(trials, spec.trials, strict=True) if trial.name == spec.best)
    result = TuningResult(spec.tuning_job, spec.plan, trials, winner, spec.earlier_trials)
    write_results(folder, result)
    # The record has the losses of the folds, which `trials` lack.
    write_json(folder / BEST_FILE, {**build_best(result), **_build_record(spec).model_dump()})
    write_report(folder, result)
