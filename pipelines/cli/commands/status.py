"""`python -m pipelines status`: show the state of every model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import params
from pipelines.cli.options import JsonOption, find_dataset_of_model
from pipelines.cli.terminal import make_console, write_json
from pipelines.errors import SpecError
from pipelines.escaping import escape
from pipelines.settings import settings

if TYPE_CHECKING:
    from pipelines.status.model_status import ModelStatus

COLORS = {"ok": "green", "drift": "red", "failed": "red", "held back": "yellow", "no champion": "yellow"}
"""Health to the color in which it is printed."""


def run_command(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Models (default: all of the project).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show each model: champion, health and why, drift, newest data, last training, endpoints, cost of this month.

    It reads the lake only: MLflow and AWS need not answer.
    """
    from pipelines.status.model_status import read_status

    statuses = [read_status(name, find_dataset_of_model(name, "")) for name in list_models(models)]
    if as_json:
        write_json([asdict(status) for status in statuses])
    else:
        _print_table(statuses)


def list_models(models: Sequence[str] | None) -> Sequence[str]:
    """Return the given models; without any, all models of the project.

    Raises:
        SpecError: no model is given, and the project has none. A retry cannot help.
    """
    if names := models or params.list_model_names(settings().project):
        return names
    raise SpecError("the project has no folder models/.", "Name the models, or create one: python -m pipelines new.")


def _print_table(statuses: Iterable[ModelStatus]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Models")
    for title in (
        "model",
        "health",
        "champion",
        "drift",
        "newest data",
        "last training",
        "endpoint",
        "USD this month",
        "of its project",
    ):
        table.add_column(title)
    for status in statuses:
        table.add_row(
            status.model,
            Text(status.health, style=COLORS[status.health]),
            f"{status.champion} since {status.champion_since:%Y-%m-%d %H:%M}Z" if status.champion_since else "",
            f"{'no drift' if status.drift.outcome == 'none' else status.drift.outcome} up to {status.drift.day}"
            if status.drift
            else "",
            status.newest_partition,
            status.last_training,
            ", ".join(f"{endpoint}: {version}" for endpoint, version in status.endpoints.items()),
            f"{status.month_usd:.2f}",
            f"{status.project_month_usd:.2f}" + ("" if status.budget_usd is None else f" of {status.budget_usd:.2f}"),
        )
    console = make_console()
    console.print(table)
    for status in statuses:
        if status.reason:
            console.print(escape(f"{status.model}: {status.health}: {status.reason}"))
