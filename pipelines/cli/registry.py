"""`python -m pipelines registry`: list events, promote a model, check MLflow's aliases, and retire versions."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from pipelines import params
from pipelines.cli.options import JsonOption, ModelArgument
from pipelines.cli.terminal import write_json, write_line
from pipelines.errors import DataError, SpecError
from pipelines.settings import create_home, settings

app = typer.Typer(
    no_args_is_help=True,
    help="Show the events of a model's versions, promote a model, correct MLflow's aliases, and retire versions.",
)


@app.command("events")
def list_events(model: ModelArgument, as_json: JsonOption = False) -> None:
    """List every event of the model, oldest first: time, kind, version, champion before and after, who, and why."""
    from pipelines.registry.lifecycle import Journal, State

    state: State = Journal.open().read_state(model)
    if not state.events:
        hint = "Check the name; the step `evaluate` registers the first version."
        raise DataError(f"the registry's journal has no event of {model!r}.", hint)
    if as_json:
        write_json(
            [{**vars(event), "at": event.at.isoformat(), "evidence": dict(event.evidence)} for event in state.events]
        )
        return
    for event in state.events:
        is_champion_change = event.from_version or event.to_version
        change = f" {event.from_version or 'none'} -> {event.to_version or 'none'}" if is_champion_change else ""
        why = f": {event.why}" if event.why else ""
        line = f"{event.at:%Y-%m-%d %H:%M:%S}Z  {event.kind:<11} {event.version:>4}{change}  by {event.who}{why}"
        write_line(line)
    for line in _summarize(state.champion, state.challenger, state.earlier_champions, dict(state.blocked_versions)):
        write_line(line)


@app.command("promote")
def promote(model: ModelArgument) -> None:
    """Register the model that `dvc repro` trained, compare it with the champion in the gate, and promote it.

    Exit with code 2 if the gate does not pass the model. A second call changes nothing.
    """
    from pipelines.cli.promotion import promote_model

    create_home()
    with redirect_stdout(sys.stderr):  # MLflow prints the URL of its run to stdout
        result = promote_model(model)
    write_line(f"{model}: version {result.version} is champion: {result.reason}")


@app.command("check")
def check_aliases(
    model: ModelArgument,
    keep: Annotated[bool, typer.Option("--keep", help="Keep an alias that was moved by hand.")] = False,
    put_back: Annotated[bool, typer.Option("--put-back", help="Move back an alias that was moved by hand.")] = False,
) -> None:
    """Make MLflow's aliases agree with the events. Record an alias that was moved by hand, and keep it or put it back.

    Without an option, the key `moved_by_hand` in section `promote` of params.yaml decides. Without that key, the alias
    is put back.
    """
    if keep and put_back:
        raise SpecError("--keep and --put-back cannot be combined.", "Give one of them.")
    from pipelines.registry.lifecycle import Journal, reconcile
    from pipelines.registry.versions import Registry

    policy = params.load_section(settings().project, "promote", model).get("moved_by_hand", "put_back")
    keeps_alias = keep or (policy == "keep" and not put_back)
    write_line(f"{model}: {reconcile(Registry.open(), Journal.open(), model, keeps_alias=keeps_alias)}")


@app.command("retire")
def retire_version(
    model: ModelArgument,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Version to retire.")],
    why: Annotated[str, typer.Option(help="Reason; it is recorded.")],
) -> None:
    """Block a version from promotion; only a forced promotion can still use it. The champion cannot be retired.

    Nothing is deleted.
    """
    from pipelines.registry.lifecycle import record_retirement
    from pipelines.registry.versions import Registry

    is_new = record_retirement(Registry.open(), model, version, why)
    write_line(
        f"{model}: version {version} is retired"
        if is_new
        else f"{model}: version {version} was blocked already, by `retire` or a rollback"
    )


def _summarize(
    champion: str, challenger: str, earlier_champions: tuple[str, ...], blocked_versions: dict[str, str]
) -> list[str]:
    suffix = f" (before it: {', '.join(reversed(earlier_champions))})" if earlier_champions else ""
    block_lines = [f"version {version} is blocked: {why}" for version, why in blocked_versions.items()]
    return [f"champion: {champion or 'none'}{suffix}, challenger: {challenger or 'none'}", *block_lines]
