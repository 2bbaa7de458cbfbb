"""Search for hyperparameters: trials of the training script, judged on walk-forward folds of the training window.

The objective of a trial is its mean loss on the folds. A trial reads data/features/train and /validation. No trial
reads the holdout, on which the gate judges. All state is in LEEWAY_HOME/tuning, so a search that was killed resumes:
finished trials are not run again, and interrupted trials resume. `python -m pipelines tune apply` writes the winner's
values into the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.contract import Result
from pipelines.tuning.plan import PlanSpec

if TYPE_CHECKING:
    from pipelines.tuning.report.results import TuningResult
    from pipelines.tuning.request import Request
    from pipelines.tuning.trials.mlflow_runs import TuningRuns


class TuneSpec(PlanSpec):
    """The data, the plan of the search, and where to write its results."""

    dataset: str = ""
    """Dataset whose training script runs; empty: the one that the features were built from."""
    features: Path = Path("data/features")
    """Folder with train/ and validation/, as `preprocess` wrote it."""
    hyperparameters: dict[str, int | float | str | list[float]] = Field(default_factory=dict)
    """Hyperparameters that all trials have. By default those of section `train`, without the searched ones."""
    tuning: Path = Path("data/tuning")
    """Folder to write: trials.csv, best.json, report.html and its pictures."""


class TuneResult(Result):
    """A finished search."""

    tuning: Path
    """Folder of the results."""
    name: str
    """Name of the search. If a later search has this name in `warm_start`, it starts from these trials."""
    objective: float
    """Mean loss of the winner over the folds."""
    hyperparameters: dict[str, int | float | str]
    """Values of the winner."""
    trials: int
    """Number of trials of the search, with those of earlier runs; without those of `warm_start`."""
    pruned: int
    """Number of trials that were stopped early, because their loss was worse than that of others."""
    failed: int
    """Number of trials that failed."""
    report: str
    """Path of the report's page."""


def run(spec: TuneSpec) -> TuneResult:
    """Run the trials, and write the results to `spec.tuning`. Idempotent: finished trials are not run again.

    Raises:
        SpecError: the features were built from another dataset, the training script refuses a value of the space, the
            budget does not pay for a trial, or no trial of `warm_start` is inside the space. A retry cannot help.
        DataError: the features do not exist or cannot be read, or the state of the search is damaged. A retry cannot
            help.
        TrainingError: no trial has an objective; the message says why the first trial has none. A retry cannot help.
        ConflictError: another process runs the same search. A retry can help.
        StorageError: the disk is full. A retry can help, and resumes.
    """
    from pipelines.feature_files import load_dataset_of_features
    from pipelines.system.log import log
    from pipelines.tuning.budget import check_budget
    from pipelines.tuning.request import build_request
    from pipelines.tuning.warm_start import check_warm_start

    check_budget(spec)
    check_warm_start(spec, spec.tuning)
    dataset = load_dataset_of_features(spec.features, spec.dataset)
    request = build_request(spec, dataset, spec.features, spec.hyperparameters or _load_hyperparameters())
    result = _tune(request, spec.tuning)
    winner, counts = result.winner, result.counts
    report = spec.tuning / "report.html"
    summary = f"{counts['trials']} trials, best {winner.metric} {result.objective:.5f} (trial {winner.number})"
    log.info("%s: %s; report: %s", request.name, summary, report)
    return TuneResult(
        tuning=spec.tuning,
        name=request.name,
        objective=result.objective,
        hyperparameters=winner.parameters,
        trials=counts["trials"],
        pruned=counts["pruned"],
        failed=counts["failed"],
        report=str(report),
    )


def _load_hyperparameters() -> dict[str, int | float | str | list[float]]:
    """Return the hyperparameters of section `train` of the model in whose folder the process runs."""
    from pipelines import params
    from pipelines.code_files import find_model
    from pipelines.settings import settings

    section = params.load_section(settings().project, "train", find_model(Path.cwd()))
    return dict(section.get("hyperparameters", {}))


def _tune(request: Request, target: Path) -> TuningResult:
    """Run the trials of a request, replace the content of the folder `target` with their results, and return these."""
    from pipelines.system.files import replace_folder
    from pipelines.system.locks import hold_lock
    from pipelines.tuning.report.results import collect_results, write_results
    from pipelines.tuning.strategies import build_pruner
    from pipelines.tuning.trials.journal import open_study
    from pipelines.tuning.trials.study import Tuning
    from pipelines.tuning.warm_start import add_warm_trials

    busy_message = f"another process runs the tuning {request.name}."
    with hold_lock(request.folder.with_suffix(".lock"), busy_message):
        study = open_study(request.folder, request.name, build_pruner(request.plan, request.num_round))
        add_warm_trials(study, request.plan)
        runs = _open_runs(request)
        Tuning(request, study, runs, _import_report).run()
        result = collect_results(request, study)
        runs = runs if runs.is_connected else _open_runs(request)  # MLflow may answer again
        _record_missing_trials(runs, result)
        with replace_folder(target) as folder:
            write_results(folder, result)
            _import_report()(folder, result)
            runs.log_report(folder)
        best_trial = {"leeway.best_trial": str(result.winner.number)}
        optional_counts = {"earlier_trials": result.earlier_trials} if result.earlier_trials else {}
        runs.finish({"objective": result.objective, **result.counts, **optional_counts}, best_trial)
    return result


def _import_report() -> Callable[[Path, TuningResult], object]:
    """Import the libraries of the report, which takes longer than writing it; return the function that writes it.

    `Tuning` calls this in a thread while the last trials run, so that the report need not wait for these imports.
    """
    import sklearn.ensemble  # noqa: F401 - the import of `write_report` does not load it, but a report may need it

    from pipelines.tuning.report.page import write_report

    return write_report


def _open_runs(request: Request) -> TuningRuns:
    """Create or find the MLflow run of a tuning."""
    from pipelines.tuning.request import IDENTITY_FIELDS
    from pipelines.tuning.trials.mlflow_runs import TuningRuns

    identity = request.plan.model_dump(include=set(IDENTITY_FIELDS))
    limits = request.plan.model_dump(include=set(PlanSpec.model_fields) - set(IDENTITY_FIELDS))
    return TuningRuns(request.name, request.script.dataset, identity, limits)


def _record_missing_trials(runs: TuningRuns, result: TuningResult) -> None:
    """Record the trials that ended while MLflow did not answer."""
    from pipelines.tuning.trials.mlflow_runs import STATE_NAMES

    states_by_name = {name: state for state, name in STATE_NAMES.items()}
    for number in runs.find_missing_trials(len(result.trials)):
        trial = result.trials[number]
        runs.start_trial(number, trial.parameters)
        state = states_by_name[trial.state]
        runs.finish_trial(number, state, trial.reason, trial.rounds, trial.objective, trial.seconds)
