"""Write the report of a tuning: an HTML page, and its pictures as PNG files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import optuna

from pipelines.pages.page import write_page
from pipelines.tuning.report.figures import draw_figures
from pipelines.tuning.report.results import TuningResult, build_best
from pipelines.tuning.trials.journal import list_trials
from pipelines.tuning.trials.progress import format_values

PAGE = "report.html"
"""File name of the page."""
MIN_TRIALS = 4
"""Least number of completed trials from which the importance of the hyperparameters is estimated."""


def write_report(folder: Path, result: TuningResult, study: optuna.Study) -> Path:
    """Write the page and its pictures to a folder; return the path of the page."""
    importance = estimate_importance(study, result)
    pictures = draw_figures(folder, result, importance)
    plan = result.request.plan
    trials = sorted(result.trials, key=lambda trial: (trial.objective is None, trial.objective or 0, trial.number))
    rows = [{"trial": trial, "values": format_values(trial.parameters)} for trial in trials]
    values: dict[str, Any] = {
        "result": result,
        "plan": plan,
        "best": build_best(result),
        "values": format_values(result.best.parameters),
        "rows": rows,
        "importance": importance,
    }
    return write_page(folder / PAGE, "tuning.html", pictures, **values)


def estimate_importance(study: optuna.Study, result: TuningResult) -> dict[str, float]:
    """Estimate each hyperparameter's share of the variance of the objective (fANOVA, Hutter et al. 2014).

    Returns:
        Hyperparameter to its share, largest first; empty if there are too few completed trials, or all are equal.
    """
    completed = [trial for trial in list_trials(study) if trial.state.name == "COMPLETE"]
    names = list(result.request.plan.space)
    if len(completed) < MIN_TRIALS or len({trial.value for trial in completed}) == 1 or len(names) < 2:
        return {}
    own_study = optuna.create_study()  # without the trials of an earlier tuning
    own_study.add_trials(completed)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=result.request.plan.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = optuna.importance.get_param_importances(own_study, evaluator=evaluator, params=names)
    return {name: float(share) for name, share in shares.items()}
