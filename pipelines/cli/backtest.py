"""`python -m pipelines backtest`: compare retraining strategies on the models of a backfill of the training DAG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines import params
from pipelines.cli.options import DatasetOption, find_dataset_of_model, parse_days
from pipelines.cli.terminal import write_line
from pipelines.settings import settings

FirstOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="YYYY-MM-DD",
        help="Compare the months that begin on this day or later (default: the as_of of the first version that passed "
        "the gate).",
    ),
]
LastOption = Annotated[
    str, typer.Option("--to", metavar="YYYY-MM-DD", help="Last day to compare (default: the last published day).")
]
OutOption = Annotated[
    str, typer.Option(metavar="FOLDER", help="Folder for the files (default: LEEWAY_HOME/backtest/MODEL).")
]
DropOption = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="How much worse than on the holdout the metric must be before the strategy `on drift` trains again: a "
        "difference of AUC or accuracy (default 0.02); in a regression, a share of the mean absolute error "
        "(default 0.1).",
    ),
]
app = typer.Typer(no_args_is_help=True, help="Compare retraining strategies on the models of a backfill.")


@app.callback()
def _keep_subcommand() -> None:
    """Keep `report` a sub-command: typer would drop the name of a single command."""


@app.command("report")
def write_report(
    model: Annotated[str, typer.Option(help="Registered model.")],
    first: FirstOption = "",
    last: LastOption = "",
    out: OutOption = "",
    dataset: DatasetOption = "",
    drop: DropOption = None,
) -> None:
    """Compare retraining monthly, never, and on drift. Write the metric of each strategy by month, and its cost.

    The files are an HTML page, and its chart as PNG. The versions are those that a backfill of the training DAG, or any
    other training with an as_of, registered.
    """
    begin, end = parse_days(first, last)
    from pipelines.backtest import report as backtest_report
    from pipelines.backtest.study import run_backtest
    from pipelines.steps.snapshot import SnapshotSpec

    default_days = SnapshotSpec.model_fields["label_delay_days"].default
    section = params.load_section(settings().project, "snapshot", model)
    label_delay_days = int(section.get("label_delay_days", default_days))
    backtest = run_backtest(model, find_dataset_of_model(model, dataset), begin, end, label_delay_days, drop)
    folder = Path(out) if out else settings().home / "backtest" / model
    page = backtest_report.write_report(folder, backtest)
    for line in (*backtest_report.summarize_backtest(backtest), str(page)):
        write_line(line)
