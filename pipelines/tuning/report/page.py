"""Write the report of a tuning: an HTML page, and its pictures as PNG files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import create_trial as make_trial

from pipelines.pages.page import write_page
from pipelines.tuning.distributions import build_distributions
from pipelines.tuning.report.figures import draw_figures
from pipelines.tuning.report.results import TuningResult, build_best
from pipelines.tuning.trials.progress import format_values

PAGE = "report.html"
"""File name of the page."""
MIN_TRIALS = 4
"""Least number of completed trials from which the importance of the hyperparameters is estimated."""


def write_report(folder: Path, result: TuningResult) -> Path:
    """Write the page and its pictures to a folder; return the path of the page."""
    importance = estimate_importance(result)
    pictures = draw_figures(folder, result, importance)
    trials = sorted(result.trials, key=lambda trial: (trial.objective is None, trial.objective or 0, trial.number))
    rows = [{"trial": trial, "parameters": format_values(trial.parameters)} for trial in trials]
    values: dict[str, Any] = {
        "result": result,
        "plan": result.plan,
        "best": build_best(result),
        "values": format_values(result.best.parameters),
        "rows": rows,
        "importance": importance,
    }
    return write_page(folder / PAGE, "tuning.html", pictures, **values)


def estimate_importance(result: TuningResult) -> dict[str, float]:
    """Estimate each hyperparameter's share of the variance of the objective (fANOVA, Hutter et al. 2014).

    Returns:
        Hyperparameter to its share, largest first; empty if there are too few completed trials, or all are equal.
    """
    completed_trials = [trial for trial in result.trials if trial.objective is not None]
    names = list(result.plan.space)
    if (
        len(completed_trials) < MIN_TRIALS
        or len({trial.objective for trial in completed_trials}) == 1
        or len(names) < 2
    ):
        return {}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    options: dict[str, Any] = {"distributions": build_distributions(result.plan.space)}
    study.add_trials(
        [make_trial(params=trial.parameters, value=trial.objective, **options) for trial in completed_trials]
    )
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=result.plan.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator, params=names)
    return {name: float(share) for name, share in shares.items()}
