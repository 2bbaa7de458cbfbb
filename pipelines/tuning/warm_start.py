"""Read the completed trials of an earlier tuning, and add those inside the space to a study."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState, create_trial

from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.settings import settings
from pipelines.system.files import read_json_object
from pipelines.system.log import log
from pipelines.tuning.distributions import build_distributions
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.space import contains
from pipelines.tuning.trials import journal
from pipelines.tuning.trials.journal import EARLIER_TRIALS, JOURNAL_FILE, WARM_NUMBER, list_trials
from pipelines.tuning.trials.mlflow_runs import RUN_ID, require_client

TRIALS_FILE = "trials.csv"
"""Table of the trials, in the folder that a tuning writes."""
PARAMETER_PREFIX = "param_"
"""Prefix of the columns in trials.csv with the values of a trial."""
BEST_FILE = "best.json"
"""Description of the winner, in the folder that a tuning writes."""
Trial = tuple[dict[str, Any], float]
"""The values of a trial, and its objective."""


@dataclass(frozen=True)
class EarlierTuning:
    """A tuning that another tuning learns from."""

    trials: list[Trial]
    """Its completed trials."""
    trial_count: int
    """Number of all its trials, pruned and failed ones included. If the earlier tuning had a warm start itself, the
    trials from which it learned are added."""


def add_warm_trials(study: optuna.Study, plan: PlanSpec) -> None:
    """Add the completed trials of the plan's `warm_start` that are inside the space to a study. Idempotent.

    Raises:
        SpecError: there is no such tuning, or none of its trials is inside the space. A retry cannot help.
        DataError: its table or its journal cannot be read. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    if not plan.warm_start or list_trials(study):
        return
    earlier = read_tuning(plan.warm_start)
    trials = [(values, objective) for values, objective in earlier.trials if contains(plan.space, values)]
    if not trials:
        raise SpecError(
            f"warm_start {plan.warm_start}: none of its {len(earlier.trials)} completed trials has values of "
            f"{', '.join(plan.space)} inside the space.",
            "Name a tuning of a space that overlaps, or leave warm_start out.",
        )
    study.set_user_attr(EARLIER_TRIALS, earlier.trial_count)
    added_numbers = {
        trial.user_attrs[WARM_NUMBER] for trial in study.get_trials(deepcopy=False) if WARM_NUMBER in trial.user_attrs
    }
    distributions = build_distributions(plan.space)
    for number, (values, objective) in enumerate(trials):
        if number not in added_numbers:
            params = {name: values[name] for name in distributions}
            study.add_trial(
                create_trial(
                    state=TrialState.COMPLETE,
                    value=objective,
                    params=params,
                    distributions=distributions,
                    user_attrs={WARM_NUMBER: number},
                )
            )
    log.info("warm start: %d of %d completed trials are inside the space", len(trials), len(earlier.trials))


def check_warm_start(plan: PlanSpec, target: Path) -> None:
    """Check that `warm_start` does not name the folder that the tuning replaces with its own results.

    Raises:
        SpecError: `warm_start` names this folder. A retry cannot help.
    """
    if plan.warm_start and Path(plan.warm_start).resolve() == target.resolve():
        raise SpecError(
            f"warm_start {plan.warm_start} is the folder that this search replaces with its own results.",
            "Give the name of the earlier search, which the last lines of `tune report` show.",
        )


def read_tuning(origin: str) -> EarlierTuning:
    """Read an earlier tuning: its completed trials, and its `trial_count`.

    Args:
        origin: its folder with trials.csv, its name or its folder in LEEWAY_HOME/tuning (a tuning on this machine), or
            the id of its MLflow run.

    Raises:
        SpecError: there is no such tuning. A retry cannot help.
        DataError: the table or the journal of the tuning cannot be read. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    folder, state_folder = Path(origin), settings().home / "tuning" / origin
    if (folder / TRIALS_FILE).is_file():
        return _read_folder(folder)
    if (state_folder / JOURNAL_FILE).is_file():
        trials, earlier_count = journal.read_trials(state_folder)
        completed = [(trial.params, float(trial.value or 0)) for trial in trials if trial.state == TrialState.COMPLETE]
        return EarlierTuning(completed, len(trials) + earlier_count)
    if RUN_ID.fullmatch(origin):
        return _read_runs(origin)
    message = f"warm_start {origin}: there is neither a folder with {TRIALS_FILE} nor a tuning of this name."
    raise SpecError(message, "Give a folder that `tune` wrote, the name of a tuning, or the id of its MLflow run.")


def _read_folder(folder: Path) -> EarlierTuning:
    """Read the table of the trials in a folder that `tune` wrote, and from best.json the number of earlier trials."""
    path, trials = folder / TRIALS_FILE, list[Trial]()
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row["state"] == "complete":
                values = {
                    name.removeprefix(PARAMETER_PREFIX): _parse(text)
                    for name, text in row.items()
                    if name.startswith(PARAMETER_PREFIX)
                }
                trials.append((values, float(row["objective"])))
        earlier_count = int(read_json_object(folder / BEST_FILE).get(EARLIER_TRIALS, 0))
    except (OSError, TypeError, ValueError, KeyError, AttributeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path} is not a table of trials: {reason}.", "The step `tune` writes it.") from None
    return EarlierTuning(trials, len(rows) + earlier_count)


def _read_runs(run_id: str) -> EarlierTuning:
    """Read the trials of an MLflow run: its nested runs."""
    from mlflow.exceptions import MlflowException

    client = require_client()
    try:
        run = client.get_run(run_id)
        query = f"tags.`mlflow.parentRunId` = '{run_id}' and tags.`leeway.trial_state` = 'complete'"
        runs = client.search_runs([run.info.experiment_id], query, max_results=10_000)
    except MlflowException as error:
        if error.get_http_status_code() == 404:
            raise SpecError(f"warm_start {run_id}: MLflow has no such run.", "Correct the id.") from None
        raise ServiceError(f"MLflow failed: {' '.join(str(error).split())}.") from None
    trials = [
        ({name: _parse(text) for name, text in trial_run.data.params.items()}, trial_run.data.metrics["objective"])
        for trial_run in runs
    ]
    metrics = run.data.metrics
    # The run of a tuning gets its metrics at the end of the tuning; until then, the trials are counted.
    return EarlierTuning(trials, int(max(len(trials), metrics.get("trials", 0)) + metrics.get(EARLIER_TRIALS, 0)))


def _parse(text: str) -> Any:
    """Parse a value of a trial: a whole number, a number, or a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
