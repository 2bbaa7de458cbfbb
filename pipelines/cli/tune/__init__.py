"""`python -m pipelines tune report | apply`: show the trials of a tuning, apply its winner. `tune` runs a tuning."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pipelines import params
from pipelines.cli.options import JsonOption
from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.code_files import PARAMS_FILE, find_model
from pipelines.errors import SpecError
from pipelines.settings import settings

app = typer.Typer()

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Model of the project (default: that of the working directory).")
]
FolderOption = Annotated[
    str,
    typer.Option(
        "--tuning",
        metavar="FOLDER|RUN",
        help="Folder that `tune` wrote (default: the model's data/tuning), or the id of the tuning's MLflow run, such "
        "as that of TuningOperator.",
    ),
]
SHOWN_TRIALS = 20
"""Number of trials that the report shows if --all is not given."""


@app.command("report")
def show_report(
    model: ModelArgument = "",
    tuning: FolderOption = "",
    show_all: Annotated[bool, typer.Option("--all", help=f"All trials, not only the best {SHOWN_TRIALS}.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the best trials in the order of their objective, and where the HTML report is."""
    from pipelines.cli.tune.table import build_table, read_rows
    from pipelines.tuning.report.artifacts import is_run_id
    from pipelines.tuning.report.page import PAGE
    from pipelines.tuning.winner import read_winner

    if model and tuning:
        raise SpecError("MODEL has no effect beside --tuning, which names the tuning.", "Give one of them.")
    with _open_results(model, tuning) as folder:
        winner, rows = read_winner(folder), read_rows(folder)
    page = f"{PAGE} among the artifacts of run {tuning}" if is_run_id(tuning) else str(folder / PAGE)
    shown_rows = rows if show_all else rows[:SHOWN_TRIALS]
    if as_json:
        write_json({"winner": winner.model_dump(), "trials": shown_rows, "report": page})
        return
    make_console().print(build_table(shown_rows, winner.metric))
    if len(shown_rows) < len(rows):
        write_line(f"{len(rows) - len(shown_rows)} more with --all")
    write_line(
        f"{winner.name}: {winner.trials_text}{winner.stopped_text}{winner.warm_start_text} ({winner.strategy}), "
        f"best {winner.metric} {winner.objective:.5f}"
    )
    write_line(f"report: {page}")


@app.command("apply")
def apply_winner(model: ModelArgument = "", tuning: FolderOption = "") -> None:
    """Write the winner's values into section `train` of the model's params.yaml, with a record of the tuning."""
    from pipelines.tuning import winner as winners

    model_folder = _find_model_folder(model)
    with _open_results(model, tuning) as folder:
        winner = winners.read_winner(folder)
    changes = winners.apply_winner(model_folder / PARAMS_FILE, winner)
    for name, (old_value, new_value) in changes.items():
        write_line(f"{name}: {'not set' if old_value is None else old_value} -> {new_value}")
    write_line(f"{model_folder / PARAMS_FILE}: {winner.name} is applied. `dvc repro` trains with it.")


@contextlib.contextmanager
def _open_results(model: str, tuning: str) -> Iterator[Path]:
    """Yield the folder with the results of a tuning. Those of an MLflow run are downloaded to a temporary folder."""
    from pipelines.tuning.report.artifacts import download_results, is_run_id

    if not is_run_id(tuning):
        yield Path(tuning) if tuning else _find_model_folder(model) / "data" / "tuning"
        return
    with tempfile.TemporaryDirectory() as folder:
        yield download_results(tuning, Path(folder))


def _find_model_folder(model: str) -> Path:
    """Return the folder with the parameters and data of a model.

    Args:
        model: name of the model; empty: the model of the working directory.
    """
    return params.find_model_folder(settings().project, model or find_model(Path.cwd()))
