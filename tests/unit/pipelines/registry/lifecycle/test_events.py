"""Test that a model's state is computed from its events."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from pipelines.registry.lifecycle import Event, Journal, Kind, State, compute_state
from pipelines.settings import settings
from pipelines.steps import record_deployment

NONE = ("", "")


@pytest.fixture(autouse=True)
def set_home(home: Path) -> None:
    """Use the home of the test."""


def build_event(kind: Kind, version: str, moved: tuple[str, str] = NONE, key: str = "", **evidence: Any) -> Event:
    return Event.create(kind, "m", version, champions=moved, evidence=evidence, key=key, why="why")


def build_verdict(version: str, verdict: str = "passed", **evidence: Any) -> Event:
    return build_event(Kind.JUDGED, version, verdict=verdict, **evidence)


def build_promotion(before: str, to: str) -> Event:
    return build_event(Kind.PROMOTED, to, (before, to))


def build_rollback(before: str, to: str) -> Event:
    return build_event(Kind.ROLLED_BACK, before, (before, to))


PROMOTIONS = [build_promotion("", "1"), build_promotion("1", "2"), build_promotion("2", "3")]


def fold_state(*events: Event) -> tuple[str, tuple[str, ...], str, set[str]]:
    state = compute_state(events)
    return state.champion, state.earlier_champions, state.challenger, set(state.blocked_versions)


def test_without_events_there_is_no_champion() -> None:
    assert fold_state() == ("", (), "", set())
    assert compute_state([]) == State()


def test_promotions_add_champions_and_rollbacks_remove_them() -> None:
    assert fold_state(*PROMOTIONS) == ("3", ("1", "2"), "", set())
    assert fold_state(*PROMOTIONS, build_rollback("3", "2")) == ("2", ("1",), "", {"3"})
    assert fold_state(*PROMOTIONS, build_rollback("3", "1")) == ("1", (), "", {"3"})
    assert fold_state(*PROMOTIONS, build_rollback("3", "2"), build_rollback("2", "1")) == ("1", (), "", {"3", "2"})
    forced_rollback = build_rollback("3", "9")
    assert fold_state(*PROMOTIONS, forced_rollback) == ("9", ("1", "2"), "", {"3"}), "version 9 was never champion"


@pytest.mark.parametrize(
    ("events", "rolled_back"),
    [
        ([], set()),
        ([build_rollback("3", "2")], {"3"}),
        ([build_rollback("3", "1")], {"2", "3"}),
        ([build_rollback("3", "9")], {"3"}),
        ([build_rollback("3", "1"), build_promotion("1", "4")], {"2", "3"}),
        ([build_rollback("3", "1"), build_promotion("1", "2")], {"3"}),
        ([build_rollback("3", "2"), build_rollback("2", "3")], {"2"}),
        ([build_event(Kind.RETIRED, "1")], set()),
    ],
)
def test_a_version_is_rolled_back_until_it_is_champion_again(events: list[Event], rolled_back: set[str]) -> None:
    assert compute_state([*PROMOTIONS, *events]).rolled_back_versions == rolled_back


def test_a_second_promotion_unblocks_a_version() -> None:
    assert fold_state(*PROMOTIONS, build_rollback("3", "2"), build_promotion("2", "3")) == ("3", ("1", "2"), "", set())
    assert fold_state(*PROMOTIONS, build_promotion("3", "1")) == ("1", ("2", "3"), "", set())


def test_a_moved_alias_changes_the_champion_only_if_it_is_kept() -> None:
    assert fold_state(*PROMOTIONS, build_event(Kind.ALIAS_MOVED, "1", ("3", "1"), kept=True)) == (
        "1",
        ("2", "3"),
        "",
        set(),
    )
    assert fold_state(*PROMOTIONS, build_event(Kind.ALIAS_MOVED, "3", ("3", ""), kept=True)) == (
        "",
        ("1", "2", "3"),
        "",
        set(),
    )
    assert fold_state(*PROMOTIONS, build_event(Kind.ALIAS_MOVED, "1", ("3", "1"), kept=False)) == fold_state(
        *PROMOTIONS
    )


@pytest.mark.parametrize(
    ("events", "challenger"),
    [
        ([build_verdict("4")], "4"),
        ([build_verdict("4"), build_verdict("5")], "5"),
        ([build_verdict("5"), build_verdict("4")], "5"),
        ([build_verdict("10"), build_verdict("9")], "10"),
        ([build_verdict("4"), build_verdict("5", "failed")], "4"),
        ([build_verdict("4"), build_verdict("4", "failed")], ""),
        ([build_verdict("4", "undecided")], ""),
        ([build_verdict("4", "undecided"), build_event(Kind.APPROVED, "4")], "4"),
        ([build_verdict("4"), build_event(Kind.REJECTED, "4")], ""),
        ([build_verdict("4", backfill=True)], ""),
        ([build_verdict("4"), build_event(Kind.RETIRED, "4")], ""),
        ([build_verdict("2")], ""),
        ([build_verdict("4"), build_promotion("3", "4")], ""),
        ([build_verdict("4"), build_promotion("3", "4"), build_rollback("4", "3")], ""),
        ([build_verdict("5"), build_promotion("3", "5"), build_promotion("5", "4"), build_verdict("5")], ""),
        ([build_event(Kind.REGISTERED, "4")], ""),
        ([build_verdict("2"), build_rollback("3", "1")], ""),  # the rollback skipped version 2
    ],
)
def test_the_challenger_is_the_newest_version_that_passed_after_the_champion(
    events: list[Event], challenger: str
) -> None:
    assert compute_state([*PROMOTIONS, *events]).challenger == challenger


def test_equal_events_have_equal_ids() -> None:
    event = build_event(Kind.PROMOTED, "2", ("1", "2"), key="7")
    assert build_event(Kind.PROMOTED, "2", ("1", "2"), key="7", more="evidence").id == event.id
    other_events = [
        build_event(Kind.PROMOTED, "2", ("1", "2"), key="8"),
        build_event(Kind.PROMOTED, "2", ("", "2"), key="7"),
        build_event(Kind.PROMOTED, "3", ("1", "3"), key="7"),
        build_event(Kind.ALIAS_MOVED, "2", ("1", "2"), key="7"),
        Event.create(Kind.PROMOTED, "n", "2", champions=("1", "2"), key="7"),
    ]
    assert event.id not in {other.id for other in other_events}


def test_an_event_names_the_actor_or_else_the_user_of_the_system(
    monkeypatch: pytest.MonkeyPatch, fresh_settings: Any
) -> None:
    import getpass

    assert build_event(Kind.REGISTERED, "1").who == getpass.getuser()
    assert "run" not in build_event(Kind.REGISTERED, "1").evidence
    monkeypatch.setenv("LEEWAY_ACTOR", "alice")
    monkeypatch.setenv("LEEWAY_RUN", "flights_train/run")
    fresh_settings()
    event = build_event(Kind.REGISTERED, "1")
    assert (event.who, event.evidence["run"], event.at.tzname()) == ("alice", "flights_train/run", "UTC")


def test_an_event_by_a_user_without_a_name_has_the_number_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    import getpass
    import os

    def fail() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", fail)
    assert build_event(Kind.REGISTERED, "1").who == f"uid {os.getuid()}"


def test_versions_that_each_endpoint_served() -> None:
    def deploy(version: str, endpoint: str = "a") -> Event:
        return build_event(Kind.DEPLOYED, version, endpoint=endpoint)

    events = [deploy("1"), deploy("2"), deploy("2"), deploy("1", "b"), deploy("3")]
    state = compute_state([*PROMOTIONS, *events])
    assert state.served_versions == {"a": ("1", "2", "3"), "b": ("1",)}
    assert (state.champion, state.last_change) == ("3", PROMOTIONS[-1]), "a deployment does not change the champion"
    assert compute_state([*events, deploy("2")]).served_versions["a"] == ("1", "2"), (
        "a version that is served again comes last"
    )
    failure = build_event(Kind.DEPLOYMENT_FAILED, "4", endpoint="a")
    assert compute_state([*events, failure]).served_versions == state.served_versions
    shadow = build_event(Kind.SHADOW_FAILED, "4", endpoint="a")
    assert compute_state([*events, shadow]).served_versions == state.served_versions
    assert compute_state([*events, build_event(Kind.UNDEPLOYED, "3", endpoint="a")]).served_versions == {"b": ("1",)}


def test_a_shadow_is_recorded_once_in_a_run_whatever_is_deployed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(outcome: Any, run: str) -> bool:
        monkeypatch.setenv("LEEWAY_RUN", run)
        settings.cache_clear()
        fields = {"model": "m", "version": "4", "endpoint": "a", "config": "a-4"}
        return record_deployment.run(record_deployment.RecordDeploymentSpec(outcome=outcome, **fields)).changed

    assert record("shadow_passed", "one") and record("deployed", "one")
    assert not record("shadow_passed", "one") and not record("deployed", "one"), "a retry of each task"
    assert record("shadow_failed", "two") and record("shadow_failed", "three")
    assert Journal.open().read_state("m").served_versions == {"a": ("4",)}


def test_only_the_first_deployment_to_an_endpoint_is_recorded_as_a_new_endpoint() -> None:
    def deploy(version: str, created: dt.datetime) -> str:
        fields = {"model": "m", "version": version, "endpoint": "a", "config": version, "why": "canary release"}
        spec = record_deployment.RecordDeploymentSpec(outcome="deployed", created=created, **fields)
        record_deployment.run(spec)
        return Journal.open().read_state("m").events[-1].why

    created = dt.datetime.now(dt.UTC)
    assert deploy("1", created) == "endpoint a: a new endpoint"
    assert deploy("1", created) == "endpoint a: a new endpoint", "a retry records nothing"
    assert deploy("2", created) == "endpoint a: canary release"
    assert deploy("3", dt.datetime.now(dt.UTC)) == "endpoint a: a new endpoint", "it was deleted and created again"
    assert len(Journal.open().read_state("m").events) == 3
