"""`python -m pipelines registry`: what happened to a model's versions, and whether MLflow says the same."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from pipelines import params
from pipelines.errors import DataError, SpecError
from pipelines.settings import settings

app = typer.Typer(no_args_is_help=True, help="Tells what happened to a model's versions, and mends MLflow's aliases.")

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Registered model.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]


@app.command("events")
def events(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Every event of the model, oldest first: when, what, from and to, who, why."""
    from pipelines.registry.lifecycle import Journal, State

    state: State = Journal.open().state(model)
    if not state.events:
        raise DataError(f"the registry's journal has no event of {model!r}.", "`evaluate` registers the first version.")
    if as_json:
        told = [{**vars(one), "at": one.at.isoformat(), "evidence": dict(one.evidence)} for one in state.events]
        _tell(json.dumps(told, indent=2, ensure_ascii=False))
        return
    for one in state.events:
        moved = (
            f" {one.from_version or 'none'} -> {one.to_version or 'none'}" if one.from_version or one.to_version else ""
        )
        why = f": {one.why}" if one.why else ""
        _tell(f"{one.at:%Y-%m-%d %H:%M:%S}Z  {one.kind:<11} {one.version:>4}{moved}  by {one.who}{why}")
    _tell(_summary(state.champion, state.challenger, state.previous, dict(state.blocked)))


@app.command("check")
def check(
    model: ModelArgument,
    keep: Annotated[bool, typer.Option("--keep", help="Keep an alias that was moved by hand.")] = False,
    put_back: Annotated[bool, typer.Option("--put-back", help="Put it back.")] = False,
) -> None:
    """MLflow's aliases are what the events say. What was moved by hand is recorded, and kept or put back.

    Without an option: as params.yaml says, section promote, moved_by_hand; put back where it does not.
    """
    if keep and put_back:
        raise SpecError("--keep and --put-back are given: one of them is wanted.")
    from pipelines.registry.lifecycle import Journal, reconcile
    from pipelines.registry.versions import Registry

    policy = params.load_section(settings().project, "promote").get("moved_by_hand", "put_back")
    kept = keep or (policy == "keep" and not put_back)
    _tell(f"{model}: {reconcile(Registry.open(), Journal.open(), model, keep=kept)}")


@app.command("retire")
def retire(
    model: ModelArgument,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Its version.")],
    why: Annotated[str, typer.Option(help="Why: it stays on record.")],
) -> None:
    """The version is not promoted any more, unless that is forced. Nothing is deleted."""
    from pipelines.registry.lifecycle import record_retirement
    from pipelines.registry.versions import Registry

    fresh = record_retirement(Registry.open(), model, version, why)
    _tell(f"{model}: version {version} is retired" + ("" if fresh else ", or was rolled back: it was blocked already"))


def _summary(champion: str, challenger: str, previous: tuple[str, ...], blocked: dict[str, str]) -> str:
    before = f" (before it: {', '.join(reversed(previous))})" if previous else ""
    shut = "".join(f"\nversion {version} is blocked: {why}" for version, why in blocked.items())
    return f"champion: {champion or 'none'}{before}, challenger: {challenger or 'none'}{shut}"


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
