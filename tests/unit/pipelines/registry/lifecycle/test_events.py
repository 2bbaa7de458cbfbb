"""A model's state is the fold of its events."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.registry.lifecycle import Event, Kind, State, fold

NONE = ("", "")


@pytest.fixture(autouse=True)
def here(home: Path) -> None:
    """Settings of the test's own."""


def event(kind: Kind, version: str, moved: tuple[str, str] = NONE, key: str = "", **evidence: Any) -> Event:
    return Event.create(kind, "m", version, moved=moved, evidence=evidence, key=key, why="why")


def judged(version: str, verdict: str = "passed", **more: Any) -> Event:
    return event(Kind.JUDGED, version, verdict=verdict, **more)


def promoted(before: str, to: str) -> Event:
    return event(Kind.PROMOTED, to, (before, to))


def back(before: str, to: str) -> Event:
    return event(Kind.ROLLED_BACK, before, (before, to))


UP = [promoted("", "1"), promoted("1", "2"), promoted("2", "3")]


def seen(*events: Event) -> tuple[str, tuple[str, ...], str, set[str]]:
    state = fold(events)
    return state.champion, state.previous, state.challenger, set(state.blocked)


def test_without_events_there_is_no_champion() -> None:
    assert seen() == ("", (), "", set())
    assert fold([]) == State()


def test_promotions_stack_champions_and_rollbacks_remove_them() -> None:
    assert seen(*UP) == ("3", ("1", "2"), "", set())
    assert seen(*UP, back("3", "2")) == ("2", ("1",), "", {"3"})
    assert seen(*UP, back("3", "1")) == ("1", (), "", {"3"})
    assert seen(*UP, back("3", "2"), back("2", "1")) == ("1", (), "", {"3", "2"})
    assert seen(*UP, back("3", "9")) == ("9", ("1", "2"), "", {"3"}), "forced, to one that was never champion"


def test_a_second_promotion_unblocks_a_version() -> None:
    assert seen(*UP, back("3", "2"), promoted("2", "3")) == ("3", ("1", "2"), "", set())
    assert seen(*UP, promoted("3", "1")) == ("1", ("2", "3"), "", set())


def test_only_a_kept_alias_changes_the_champion() -> None:
    assert seen(*UP, event(Kind.ALIAS_MOVED, "1", ("3", "1"), kept=True)) == ("1", ("2", "3"), "", set())
    assert seen(*UP, event(Kind.ALIAS_MOVED, "3", ("3", ""), kept=True)) == ("", ("1", "2", "3"), "", set())
    assert seen(*UP, event(Kind.ALIAS_MOVED, "1", ("3", "1"), kept=False)) == seen(*UP)


@pytest.mark.parametrize(
    ("events", "challenger"),
    [
        ([judged("4")], "4"),
        ([judged("4"), judged("5")], "5"),
        ([judged("5"), judged("4")], "5"),
        ([judged("10"), judged("9")], "10"),
        ([judged("4"), judged("5", "failed")], "4"),
        ([judged("4"), judged("4", "failed")], ""),
        ([judged("4", "undecided")], ""),
        ([judged("4", "undecided"), event(Kind.APPROVED, "4")], "4"),
        ([judged("4"), event(Kind.REJECTED, "4")], ""),
        ([judged("4", backfill=True)], ""),
        ([judged("4"), event(Kind.RETIRED, "4")], ""),
        ([judged("2")], ""),
        ([judged("4"), promoted("3", "4")], ""),
        ([judged("4"), promoted("3", "4"), back("4", "3")], ""),
        ([judged("5"), promoted("3", "5"), promoted("5", "4"), judged("5")], ""),
        ([event(Kind.REGISTERED, "4")], ""),
    ],
)
def test_the_challenger_is_the_newest_that_passed_after_the_champion(events: list[Event], challenger: str) -> None:
    assert fold([*UP, *events]).challenger == challenger


def test_equal_events_have_equal_ids() -> None:
    one = event(Kind.PROMOTED, "2", ("1", "2"), key="7")
    assert event(Kind.PROMOTED, "2", ("1", "2"), key="7", more="evidence").id == one.id
    others = [
        event(Kind.PROMOTED, "2", ("1", "2"), key="8"),
        event(Kind.PROMOTED, "2", ("", "2"), key="7"),
        event(Kind.PROMOTED, "3", ("1", "3"), key="7"),
        event(Kind.ALIAS_MOVED, "2", ("1", "2"), key="7"),
        Event.create(Kind.PROMOTED, "n", "2", moved=("1", "2"), key="7"),
    ]
    assert one.id not in {other.id for other in others}


def test_who_is_the_actor_or_else_the_user_of_the_system(monkeypatch: pytest.MonkeyPatch, fresh_settings: Any) -> None:
    import getpass

    assert event(Kind.REGISTERED, "1").who == getpass.getuser()
    assert "run" not in event(Kind.REGISTERED, "1").evidence
    monkeypatch.setenv("LEEWAY_ACTOR", "alice")
    monkeypatch.setenv("LEEWAY_RUN", "flights_train/run")
    fresh_settings()
    told = event(Kind.REGISTERED, "1")
    assert (told.who, told.evidence["run"], told.at.tzname()) == ("alice", "flights_train/run", "UTC")


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import getpass
    import os

    def none() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", none)
    assert event(Kind.REGISTERED, "1").who == f"uid {os.getuid()}"
