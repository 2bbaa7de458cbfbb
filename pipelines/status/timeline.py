"""Merge the events of the registry and of the loop into one timeline of a model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from pipelines.loop import events as loop_events
from pipelines.registry.lifecycle import Event, Kind, State
from pipelines.registry.lifecycle.events import SHADOW_KINDS
from pipelines.settings import settings
from pipelines.status.documents.model import TimelineEvent
from pipelines.status.texts import shorten

DAYS = 365
"""All events of this number of days up to now are listed."""
MIN_EVENTS = 200
"""Number of the newest events that are listed even if they are older."""


def map_as_of(history: loop_events.History) -> dict[str, dt.date]:
    """Map each version that the loop trained to the as_of of its training."""
    return {training.version: training.as_of for training in history.trainings.values() if training.version}


def build_timeline(model: str, state: State, history: loop_events.History, now: dt.datetime) -> list[TimelineEvent]:
    """Build the timeline of a model, oldest event first: the last year, and at least `MIN_EVENTS` events.

    Args:
        model: registered model.
        state: its state in the registry.
        history: history of its trainings.
        now: the current moment.
    """
    as_of_by_version = map_as_of(history)
    registry_events = [_convert_registry_event(model, event, as_of_by_version) for event in state.events]
    loop_timeline = [_convert_loop_event(model, event) for event in history.events]
    timeline = sorted([*registry_events, *loop_timeline], key=lambda event: event.at)
    begin, first_index = now - dt.timedelta(DAYS), len(timeline) - MIN_EVENTS
    return [event for index, event in enumerate(timeline) if index >= first_index or event.at >= begin]


def find_report_url(model: str, version: str) -> str:
    """Return the address of the report of a version's evaluation; empty if there is none."""
    page = settings().home / "docs" / "models" / model / version / "report.html"
    return settings().build_report_url(model, version) if version and page.is_file() else ""


def _find_shadow_url(model: str, version: str) -> str:
    page = settings().home / "docs" / "shadow" / model / version / "shadow.html"
    return settings().build_shadow_url(model, version) if version and page.is_file() else ""


def _convert_registry_event(model: str, event: Event, as_of_by_version: Mapping[str, dt.date]) -> TimelineEvent:
    find_url = _find_shadow_url if event.kind in SHADOW_KINDS else find_report_url
    return TimelineEvent(
        at=event.at,
        source="registry",
        kind=str(event.kind),
        version=event.version,
        from_version=event.from_version,
        to_version=event.to_version,
        as_of=as_of_by_version.get(event.version),
        outcome=str(event.evidence.get("verdict", "")) if event.kind is Kind.JUDGED else "",
        trigger="",
        guard="",
        who=shorten(event.who),
        why=shorten(event.why),
        run=shorten(str(event.evidence.get("run", ""))),
        report_url=find_url(model, event.version),
    )


def _convert_loop_event(model: str, event: loop_events.Event) -> TimelineEvent:
    return TimelineEvent(
        at=event.at,
        source="loop",
        kind=str(event.kind),
        version=event.version,
        from_version="",
        to_version="",
        as_of=event.as_of,
        outcome=event.outcome,
        trigger=event.trigger,
        guard=event.guard,
        who=shorten(event.who),
        why=shorten(event.why or event.reason),
        run=shorten(event.run),
        report_url=find_report_url(model, event.version),
    )
