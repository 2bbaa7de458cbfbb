"""`python -m pipelines backtest`: what a backfill of the training tells."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipelines import params
from pipelines.errors import SpecError
from pipelines.settings import settings

app = typer.Typer(no_args_is_help=True, help="Tells what the models of a backfill would have been worth.")
DROP = 0.02


@app.callback()
def _group() -> None:
    """A group of commands, though it has one: `backtest report` stays as it is when there are more."""


@app.command("report")
def report(
    model: Annotated[str, typer.Option(help="Registered model.")] = "flights",
    first: Annotated[str, typer.Option("--from", metavar="YYYY-MM-DD", help="First day; the first model's else.")] = "",
    last: Annotated[str, typer.Option("--to", metavar="YYYY-MM-DD", help="Last day; the last published else.")] = "",
    out: Annotated[str, typer.Option(metavar="FOLDER", help="To write to; LEEWAY_HOME/backtest/MODEL else.")] = "",
    dataset: Annotated[str, typer.Option(help="The model's dataset; named as the model else.")] = "",
    drop: Annotated[float, typer.Option(min=0, max=1, help="AUC lost after which `on drift` trains again.")] = DROP,
) -> None:
    """Retrain monthly, never, or on drift: what each would have brought and cost, as a PNG and an HTML page."""
    begin, end = _day("--from", first), _day("--to", last)
    if begin and end and begin > end:
        raise SpecError(f"--from {first} is after --to {last}.")
    from pipelines.backtest import page as backtest_page
    from pipelines.backtest import study
    from pipelines.dataset import load_dataset
    from pipelines.steps.snapshot import SnapshotSpec

    default = SnapshotSpec.model_fields["label_delay_days"].default
    delay = int(params.load_section(settings().project, "snapshot").get("label_delay_days", default))
    told = study.run_study(model, load_dataset(dataset or model), begin, end, delay, drop)
    folder = Path(out) if out else settings().home / "backtest" / model
    page = backtest_page.write(folder, told)
    for line in backtest_page.lines(told):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{page}\n")


def _day(option: str, text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text) if text else None
    except ValueError:
        raise SpecError(f"{option} {text!r}: a day is wanted, YYYY-MM-DD.") from None
