"""`python -m pipelines loop`: show the loop's events and its guards' answers, write its report, reset the breaker."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import params
from pipelines.cli.options import (
    DatasetOption,
    JsonOption,
    ModelArgument,
    find_dataset_of_model,
    parse_day,
    parse_days,
)
from pipelines.cli.terminal import write_json, write_line
from pipelines.errors import DataError, SpecError
from pipelines.settings import settings

if TYPE_CHECKING:
    from pipelines.loop import Event

app = typer.Typer(
    no_args_is_help=True, help="Show which trainings were started or held back, and why, and reset the breaker."
)


@app.command("events")
def list_events(model: ModelArgument, as_json: JsonOption = False) -> None:
    """List every event, oldest first: time, as_of, kind, guard or outcome, who requested the training, and why."""
    from pipelines.loop.journal import Journal

    events = Journal.open().read_state(model).events
    _require_events(model, events)
    if as_json:
        write_json([vars(event) for event in events])
        return
    for event in events:
        write_line(_format_event(event))


@app.command("status")
def show_status(
    model: ModelArgument,
    as_of: Annotated[str, typer.Option(metavar="DATE", help="Date of the training (default: today).")] = "",
    dataset: DatasetOption = "",
    drifted_columns: Annotated[
        str, typer.Option(metavar="NAMES", help="Columns that drifted, separated by commas.")
    ] = "",
) -> None:
    """Show the answer of each guard, and whether drift would start a training as of a date. Changes nothing."""
    from pipelines.lake import Lake
    from pipelines.loop.ask_guards import TrainingQuestion, ask_guards
    from pipelines.loop.journal import Journal
    from pipelines.steps.guard import GuardSpec

    day = parse_day("--as-of", as_of) if as_of else dt.datetime.now(dt.UTC).date()
    model_dataset = find_dataset_of_model(model, dataset)
    values = {
        "dataset": model_dataset.name,
        "model": model,
        "as_of": day,
        "trigger": "drift",
        "drifted_columns": drifted_columns,
    }
    spec = GuardSpec.parse({**params.load_section(settings().project, "guard", model), **values}, "loop status")
    question = TrainingQuestion(model, model_dataset, spec.as_of, spec.policy, spec.drifted_columns)
    answers = ask_guards(question, Journal.open().read_state(model), Lake.open())
    for guard, hold_back in answers.items():
        end_text = f" (until {hold_back.until})" if hold_back and hold_back.until else ""
        write_line(f"{guard:<12}  {f'holds back: {hold_back.why}{end_text}' if hold_back else 'lets through'}")
    is_held_back = any(answers.values())
    write_line(f"{model} as of {spec.as_of}: drift would {'be held back' if is_held_back else 'start a training'}")


@app.command("reset")
def reset_breaker(model: ModelArgument, why: Annotated[str, typer.Option(help="Reason; it is recorded.")]) -> None:
    """Reset the breaker, so that it no longer counts earlier trainings."""
    from pipelines.steps import reset_breaker

    if not why.strip():
        raise SpecError("--why is empty.", "Give the reason; it is recorded.")
    reset_breaker.run(reset_breaker.ResetBreakerSpec(model=model, why=why))
    write_line(f"{model}: the breaker is reset")


@app.command("report")
def write_report(
    model: ModelArgument,
    first: Annotated[
        str,
        typer.Option(
            "--from", metavar="DATE", help="First day; a promoted version must have this or an earlier as_of."
        ),
    ],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="Last day (default: last published).")] = "",
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder (default: LEEWAY_HOME/docs/loop/MODEL).")] = "",
    dataset: DatasetOption = "",
) -> None:
    """Write an HTML page that compares the loop, week by week, with never retraining and with retraining monthly."""
    _, end = parse_days(first, last)
    begin = parse_day("--from", first)
    from pipelines.loop import report as loop_report
    from pipelines.loop.study import run_study

    study = run_study(model, find_dataset_of_model(model, dataset), begin, end)
    folder = Path(out) if out else settings().home / "docs" / "loop" / model
    page = loop_report.write_report(folder, study)
    for line in (*loop_report.summarize_study(study), str(page)):
        write_line(line)


def _require_events(model: str, events: Sequence[Event]) -> None:
    if not events:
        raise DataError(
            f"the loop has no event of {model!r}.",
            "Check the name; the first task of a training DAG, `guard`, records the first event.",
        )


def _format_event(event: Event) -> str:
    guard_or_outcome = event.guard or event.outcome
    trigger = event.trigger + (f" ({event.reason})" if event.reason else "")
    end_text = f" (until {event.until})" if event.until else ""
    fields = [
        f"{event.at:%Y-%m-%d %H:%M:%S}Z",
        f"{event.as_of or ''!s:<10}",
        f"{event.kind:<9}",
        f"{guard_or_outcome:<12}",
    ]
    details = [f"by {trigger or event.who}", event.run, f"{event.why}{end_text}"]
    return "  ".join([*fields, *filter(None, details)])
