"""`python -m pipelines loop`: what drift started and what was held back, what holds now, and the breaker's button."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import params
from pipelines.errors import DataError, SpecError
from pipelines.settings import settings

if TYPE_CHECKING:
    from pipelines.loop import Event

app = typer.Typer(no_args_is_help=True, help="Tells what drift started and what was held back, and why.")

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Registered model.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]
NOBODY = "nobody: this asks what would be"
"""Run of a request that is none."""


@app.command("events")
def events(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Every event, oldest first: when, as of, what, which guard or outcome, who asked, why."""
    from pipelines.loop.journal import Journal

    told = Journal.open().state(model).events
    _demand(model, told)
    if as_json:
        sys.stdout.write(json.dumps([vars(one) for one in told], indent=2, default=str) + "\n")
        return
    for one in told:
        _tell(_line(one))


@app.command("status")
def status(
    model: ModelArgument,
    as_of: Annotated[str, typer.Option(metavar="DATE", help="Moment of training; today where it is not given.")] = "",
    dataset: Annotated[str, typer.Option(help="Dataset of the model.")] = "flights",
    worst: Annotated[str, typer.Option(metavar="NAMES", help="Columns that drifted, with commas between them.")] = "",
) -> None:
    """Whether drift would start a training as of a day, and what each guard says to it. Changes nothing."""
    from pipelines.loop.facts import load_training_window
    from pipelines.loop.guards import GUARDS, list_hold_backs
    from pipelines.loop.journal import Journal
    from pipelines.steps.guard import GuardSpec, build_request

    moment = as_of or str(dt.datetime.now(dt.UTC).date())
    given = {"dataset": dataset, "model_name": model, "as_of": moment, "trigger": "drift", "worst": worst}
    spec = GuardSpec.parse({**params.load_section(settings().project, "guard"), **given}, "loop status")
    history = Journal.open().state(model)
    training = build_request(spec, NOBODY, load_training_window(spec.as_of).window())
    hold_backs = {hold_back.guard: hold_back for hold_back in list_hold_backs(training, history, spec.policy)}
    for guard in GUARDS:
        hold_back = hold_backs.get(guard)
        until = f" (until {hold_back.until})" if hold_back and hold_back.until else ""
        _tell(f"{guard:<12}  {f'holds back: {hold_back.why}{until}' if hold_back else 'lets through'}")
    _tell(f"{model} as of {spec.as_of}: drift would {'be held back' if hold_backs else 'start a training'}")


@app.command("reset")
def reset(model: ModelArgument, why: Annotated[str, typer.Option(help="Why: it stays on record.")]) -> None:
    """The breaker is closed again: what drift started before does not count for it any more."""
    from pipelines.loop import transitions
    from pipelines.loop.journal import Journal

    if not why.strip():
        raise SpecError("--why is empty: say why, it stays on record.")
    journal = Journal.open()
    _demand(model, journal.state(model).events)
    journal.change(model, lambda history: transitions.reset_breaker(model, why, history))
    _tell(f"{model}: the breaker is closed again")


@app.command("report")
def report(
    model: ModelArgument,
    first: Annotated[str, typer.Option("--from", metavar="DATE", help="First day; it had a champion.")],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="Last day; the last published else.")] = "",
    out: Annotated[str, typer.Option(metavar="FOLDER", help="To write to; LEEWAY_HOME/docs/loop/MODEL else.")] = "",
    dataset: Annotated[str, typer.Option(help="Dataset of the model.")] = "flights",
) -> None:
    """What the loop did and was worth, week by week, beside never retraining and by the month: a page."""
    begin, end = _day("--from", first), _day("--to", last) if last else None
    if end and begin > end:
        raise SpecError(f"--from {first} is after --to {last}.")
    from pipelines.dataset import load_dataset
    from pipelines.loop import report as loop
    from pipelines.loop.study import run_study

    study = run_study(model, load_dataset(dataset), begin, end)
    folder = Path(out) if out else settings().home / "docs" / "loop" / model
    page = loop.write_report(folder, study)
    for line in (*loop.format_lines(study), str(page)):
        _tell(line)


def _demand(model: str, events: Sequence[Event]) -> None:
    if not events:
        raise DataError(f"the loop has no event of {model!r}.", "`guard`, the first task of a training, makes them.")


def _day(option: str, text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{option} {text!r}: a day is wanted, YYYY-MM-DD.") from None


def _line(one: Event) -> str:
    """An event for people."""
    what, asked = one.guard or one.outcome, one.trigger + (f" ({one.reason})" if one.reason else "")
    until = f" (until {one.until})" if one.until else ""
    parts = [f"{one.at:%Y-%m-%d %H:%M:%S}Z", f"{one.as_of or ''!s:<10}", f"{one.kind:<9}", f"{what:<12}"]
    tail = [f"by {asked or one.who}", one.run, f"{one.why}{until}"]
    return "  ".join([*parts, *filter(None, tail)])


def _tell(line: str) -> None:
    """What data and events hold must not steer a terminal, nor fake a line."""
    sys.stdout.write(f"{''.join(one if one.isprintable() else ' ' for one in line)}\n")
