"""Test the merged events of a model, and the weeks of its drift."""

import datetime as dt
from dataclasses import replace

from pipelines.loop import events as loop_events
from pipelines.loop.events import build_history
from pipelines.registry.lifecycle import Event, Kind, compute_state
from pipelines.settings import settings
from pipelines.status.drift_history import DriftHistory
from pipelines.status.timeline import MIN_EVENTS, build_timeline

NOW = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
AS_OF = dt.date(2013, 4, 1)


def make_loop_event(kind, days_ago, run="dag/run", **fields):
    event = loop_events.Event.create(kind, "m", run, as_of=AS_OF, trigger="drift", **fields)
    return replace(event, at=NOW - dt.timedelta(days_ago))


def make_event(kind, days_ago, version="1", **fields):
    return replace(Event.create(kind, "m", version, **fields), at=NOW - dt.timedelta(days_ago))


def test_both_histories_are_merged_by_time(home):
    loop = [
        make_loop_event(loop_events.Kind.STARTED, 9, reason="it drifted"),
        make_loop_event(loop_events.Kind.ENDED, 6, outcome="passed", version="1"),
    ]
    registry = [
        make_event(Kind.JUDGED, 8, evidence={"verdict": "passed", "run": "dag/run"}, why="x" * 600),
        make_event(Kind.PROMOTED, 7, champions=("", "1")),
    ]
    timeline = build_timeline("m", compute_state(registry), build_history(loop), NOW)
    assert [(event.source, event.kind) for event in timeline] == [
        ("loop", "started"),
        ("registry", "judged"),
        ("registry", "promoted"),
        ("loop", "ended"),
    ]
    started, judged, promoted, ended = timeline
    assert (started.why, started.trigger, started.run) == ("it drifted", "drift", "dag/run")
    assert (judged.outcome, judged.run, judged.as_of, len(judged.why)) == ("passed", "dag/run", AS_OF, 500)
    assert (promoted.from_version, promoted.to_version, promoted.outcome) == ("", "1", "")
    assert (ended.outcome, ended.version, ended.report_url) == ("passed", "1", "")


def test_a_report_is_linked_where_it_exists(home):
    page = settings().home / "docs" / "models" / "m" / "1" / "report.html"
    page.parent.mkdir(parents=True)
    page.touch()
    state = compute_state([make_event(Kind.JUDGED, 1), make_event(Kind.SHADOW_PASSED, 1)])
    judged, shadow = build_timeline("m", state, build_history([]), NOW)
    assert judged.report_url == settings().build_report_url("m", "1")
    assert shadow.report_url == "", "there is no report of a shadow"


def test_old_events_are_left_out_except_the_last_ones(home):
    held_back = [make_loop_event(loop_events.Kind.HELD_BACK, 1_000 - n, f"r/{n}") for n in range(MIN_EVENTS + 50)]
    assert len(build_timeline("m", compute_state([]), build_history(held_back), NOW)) == MIN_EVENTS
    recent = [make_loop_event(loop_events.Kind.HELD_BACK, 9, f"s/{n}") for n in range(MIN_EVENTS + 50)]
    timeline = build_timeline("m", compute_state([]), build_history([*held_back, *recent]), NOW)
    assert len(timeline) == MIN_EVENTS + 50


def make_decision(day, outcome="none", version="1", drifted=None, effects=()):
    pairs = [{"name": "distance", "effect": effect} for effect in effects]
    fields = {"version": version, "drifted_columns": drifted, "effects": pairs or None}
    return {"day": day, "outcome": outcome, "reasons": "a\nb", **fields}


def test_weeks_of_drift(home):
    monday = dt.date(2013, 4, 1)
    history = DriftHistory(
        decisions=(
            make_decision(monday - dt.timedelta(weeks=60)),
            make_decision(monday, effects=(0.5, 1.23456)),
            make_decision(monday + dt.timedelta(6), "drift", "2", ["distance"], effects=(0.7,)),
            make_decision(monday + dt.timedelta(7)),
        ),
    )
    first, second = history.list_weeks("m", monday + dt.timedelta(8))
    assert (first.week, second.week) == (monday, monday + dt.timedelta(7))
    assert (first.effects, first.drifted_columns, second.effects) == ({"distance": 1.2346}, ["distance"], {})
    assert [(decision.outcome, decision.reasons) for decision in first.decisions] == [
        ("none", "a; b"),
        ("drift", "a; b"),
    ]
    last = history.find_last_decision("m", "1")
    assert last and last.day == monday + dt.timedelta(7)
    assert history.find_last_decision("m", "9") is None
    assert DriftHistory().list_weeks("m", None) == []
