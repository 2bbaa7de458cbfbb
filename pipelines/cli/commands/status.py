"""`python -m pipelines status`: show the state of every model, or write it for Leeway's page in Airflow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import params
from pipelines.cli.options import JsonOption
from pipelines.cli.terminal import make_console, write_json
from pipelines.errors import DataError, RetryableError, ServiceError, SpecError
from pipelines.escaping import escape
from pipelines.settings import settings

if TYPE_CHECKING:
    from pipelines.status.documents.models import ModelSummary, Performance

COLORS = {"ok": "green", "drift": "red", "failed": "red", "held back": "yellow", "no champion": "yellow"}
"""Maps each state of health to the color in which it is printed."""
DEFAULT_INTERVAL_S = 5.0
"""Seconds between two checks of the lake by `--watch`."""


def run_command(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Models (default: all of the project).")
    ] = None,
    as_json: JsonOption = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write documents of all models to LEEWAY_HOME/status, for Airflow's page.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Write the documents now, and after each change while somebody visits the page, until SIGTERM.",
        ),
    ] = False,
    interval_s: Annotated[
        float | None,
        typer.Option("--interval", min=0.1, help="Seconds between two checks of the lake, for --watch (default: 5)."),
    ] = None,
) -> None:
    """Show each model: health and why, champion, performance, drift, newest data, last training, endpoints, cost.

    The command reads only the lake, so MLflow and AWS need not be reachable.
    """
    if (write or watch) and (models or as_json):
        raise SpecError("--write and --watch are for all models of the project.", "Give neither MODEL nor --json.")
    if write and watch:
        raise SpecError("--watch writes the documents, too.", "Give --write or --watch.")
    if interval_s is not None and not watch:
        raise SpecError("--interval has no effect without --watch.", "Give both.")
    if write:
        _write_documents()
    elif watch:
        from pipelines.status.watching import watch as watch_lake

        watch_lake(interval_s or DEFAULT_INTERVAL_S)
    else:
        _show(list_models(models), as_json=as_json)


def _show(models: Iterable[str], *, as_json: bool) -> None:
    from pipelines.lake.cached import CachedLake
    from pipelines.status.inputs import StatusInputs
    from pipelines.status.model_documents import build_summary, shorten_performance

    inputs = StatusInputs(CachedLake.open())
    summaries = [shorten_performance(build_summary(inputs, name)) for name in models]
    if as_json:
        write_json([summary.model_dump(mode="json") for summary in summaries])
    else:
        _print_table(summaries)


def _write_documents() -> None:
    """Write the documents of Leeway's page once, and copy them to S3 if LEEWAY_STATUS_COPY is set.

    Raises:
        ConflictError, ServiceError: a document could not be written, or the lake or S3 does not answer. A retry can
            help.
        DataError: a document could not be written, and a retry cannot help.
        SpecError: AWS is not set up here, or the bucket does not exist. A retry cannot help.
        InvalidError: AWS denies the request. A retry cannot help.
    """
    from pipelines.lake.cached import CachedLake
    from pipelines.status.writing import write_documents

    problems = write_documents(CachedLake.open())
    if uri := settings().status_copy:
        from pipelines.status.documents_copy import upload_documents

        upload_documents(uri)
    if problems:
        listing = "; ".join(f"{name}: {error.message}" for name, error in problems.items())
        can_retry = all(isinstance(error, RetryableError) for error in problems.values())
        message = f"{len(problems)} document(s) could not be written; the others were. {listing}"
        raise (ServiceError if can_retry else DataError)(message, "Their old files are still there.")


def list_models(models: Sequence[str] | None) -> Sequence[str]:
    """Return `models`, or all models of the project if none is given.

    Raises:
        SpecError: no model is named, and the project has no models/NAME/params.yaml. A retry cannot help.
    """
    if names := models or params.list_model_names(settings().project):
        return names
    hint = "Name the models, or create one: python -m pipelines new."
    raise SpecError("the project has no models/NAME/params.yaml.", hint)


def _print_table(summaries: Iterable[ModelSummary]) -> None:
    from rich.table import Table
    from rich.text import Text

    from pipelines.monitoring.drift.alarms import NO_DRIFT

    table = Table(title="Models")
    titles = ("model", "health", "champion", "newest labelled week", "drift", "newest data", "last training")
    for title in (*titles, "endpoint", "USD this month", "USD of the project this month"):
        table.add_column(title)
    for summary in summaries:
        health = Text(summary.health, style=COLORS[summary.health])
        table.add_row(summary.model, health, *_format_history(summary), *_format_costs(summary))
    console = make_console()
    console.print(table)
    for summary in summaries:
        if summary.reason:
            console.print(escape(f"{summary.model}: {summary.health}: {summary.reason}"))
        if (drift := summary.drift) and drift.outcome == "none" and drift.reasons not in ("", NO_DRIFT):
            console.print(escape(f"{summary.model}: no drift up to {drift.day}: {drift.reasons}"))


def _format_history(summary: ModelSummary) -> tuple[str, ...]:
    """Format champion, performance, drift, newest partition, last training and endpoints."""
    drift, training = summary.drift, summary.last_training
    return (
        f"{summary.champion} since {summary.champion_since:%Y-%m-%d %H:%M}Z" if summary.champion_since else "",
        _format_performance(summary.performance),
        f"{'no drift' if drift.outcome == 'none' else drift.outcome} up to {drift.day}" if drift else "",
        summary.newest_partition,
        f"{training.as_of} {training.outcome or 'running'}" if training else "",
        ", ".join(f"{endpoint}: {version}" for endpoint, version in summary.endpoints.items()),
    )


def _format_performance(performance: Performance | None) -> str:
    """Format the metric of the last week with labels, and its interval; empty if there is no such week."""
    if performance is None:
        return ""
    week = performance.weeks[-1]
    interval = "" if week.low is None or week.high is None else f" ({week.low:.4g} to {week.high:.4g})"
    return f"{performance.metric} {week.value:.4g}{interval}, {week.week}"


def _format_costs(summary: ModelSummary) -> tuple[str, str]:
    budget = "" if summary.budget_usd is None else f" of {summary.budget_usd:.2f}"
    return f"{summary.month_usd:.2f}", f"{summary.project_month_usd:.2f}{budget}"
