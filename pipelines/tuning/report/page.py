"""Write the report of a tuning: an HTML page, and its pictures as PNG files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.pages.page import write_page
from pipelines.tuning.report.figures import draw_figures
from pipelines.tuning.report.importance import estimate_importance
from pipelines.tuning.report.results import TuningResult, build_best
from pipelines.tuning.trials.progress import format_values

PAGE = "report.html"
"""File name of the page."""


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
        "values": format_values(result.winner.parameters),
        "rows": rows,
        "importance": importance,
    }
    return write_page(folder / PAGE, "tuning.html", pictures, **values)
