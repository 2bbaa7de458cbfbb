"""Test each guard and what it lets through, and the guards together over many days of drift."""

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.loop import (
    GUARDS,
    Event,
    History,
    HoldBack,
    Kind,
    Policy,
    Request,
    build_history,
    combine_hold_backs,
    guards,
)
from pipelines.loop.transitions import build_decision, build_end, build_reset

DAY = dt.date(2013, 6, 1)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OFF = Policy(cooldown_days=0, per_week=1_000, breaker_after=1_000)
"""A policy without guards, except those that no policy can turn off."""


@pytest.fixture(autouse=True)
def set_home(home: Path) -> None:
    """Use the home of the test."""


def compute_day(n: int) -> dt.date:
    return DAY + dt.timedelta(n)


def build_request(n: int = 0, run: str = "requested", **fields: Any) -> Request:
    values = {
        "model": "m",
        "run": run,
        "as_of": compute_day(n),
        "trigger": "drift",
        "now": NOW,
        "data": f"of {n}",
        "drifted_columns": ("x",),
    }
    return Request(**{**values, **fields})


def build_start(n: int, run: str = "", trigger: str = "drift", ago_h: float = 1.0, **fields: Any) -> Event:
    values = {"as_of": compute_day(n), "trigger": trigger, "data": f"of {n}", **fields}
    event = Event.create(Kind.STARTED, "m", run or f"r{n}", **values)
    return Event(**{**vars(event), "at": NOW - dt.timedelta(hours=ago_h)})


def build_training(n: int, outcome: str = "not_passed", **fields: Any) -> list[Event]:
    """Build the events of a training that ended."""
    start = build_start(n, **fields)
    return [
        start,
        Event.create(Kind.ENDED, "m", start.run, outcome=outcome, as_of=compute_day(n), trigger=start.trigger),
    ]


def create_history(*events: Event | list[Event]) -> History:
    return build_history(event for item in events for event in (item if isinstance(item, list) else [item]))


# Each guard alone


@pytest.mark.parametrize(
    ("days", "holds"), [(0, True), (13, True), (14, False), (40, False), (-13, True), (-14, False)]
)
def test_the_cooldown_counts_days_before_and_after_a_training(days: int, holds: bool) -> None:
    hold_back = guards.check_cooldown(build_request(days), create_history(build_training(0)), Policy(cooldown_days=14))
    assert (hold_back is not None) == holds
    if hold_back:
        assert hold_back.until == compute_day(14)
        side = "before" if days >= 0 else "after"
        assert f"{abs(days)} day(s) {side} {compute_day(days)}: the policy demands 14" in hold_back.why


def test_a_cooldown_of_0_days_or_without_a_training_holds_nothing_back() -> None:
    assert guards.check_cooldown(build_request(0), create_history(build_training(0)), Policy(cooldown_days=0)) is None
    assert guards.check_cooldown(build_request(0), create_history(), Policy()) is None


@pytest.mark.parametrize("trigger", ["drift", "schedule", "manual", "backfill"])
def test_a_training_counts_whatever_started_it_except_a_backfill(trigger: str) -> None:
    history = create_history(build_start(0, trigger=trigger, data="of 1"))
    checks = (guards.check_cooldown, guards.check_per_week, guards.check_in_flight, guards.check_same_data)
    assert {bool(check(build_request(1), history, Policy())) for check in checks} == {trigger != "backfill"}


@pytest.mark.parametrize(
    ("training_days", "n", "until"),
    [
        ([0, 3], 5, 7),
        ([0, 3], 6, 7),
        ([0, 3], 7, None),
        ([0, 3, 4], 5, 10),
        ([0], 1, None),
        ([3, 5], 4, 10),
        ([13], 4, None),
    ],
)
def test_any_seven_days_have_at_most_the_allowed_trainings(training_days: list[int], n: int, until: int | None) -> None:
    history, policy = create_history(*(build_training(number) for number in training_days)), Policy(per_week=2)
    hold_back = guards.check_per_week(build_request(n), history, policy)
    assert (hold_back.until if hold_back else None) == (None if until is None else compute_day(until))
    if until is not None:
        assert guards.check_per_week(build_request(until), history, policy) is None
        assert guards.check_per_week(build_request(until - 1), history, policy) is not None


@pytest.mark.parametrize(("ago_h", "holds"), [(0.0, True), (95.9, True), (96.1, False), (-2.0, True)])
def test_only_one_training_runs_until_it_ends_or_is_too_old(ago_h: float, holds: bool) -> None:
    history = create_history(build_start(-60, ago_h=ago_h))
    assert bool(guards.check_in_flight(build_request(), history, Policy(in_flight_h=96))) == holds
    assert (
        guards.check_in_flight(
            build_request(), create_history(build_training(-60, ago_h=ago_h)), Policy(in_flight_h=96)
        )
        is None
    )


def test_a_run_is_not_held_back_by_itself() -> None:
    history = create_history(build_start(0, run="requested"))
    assert [guard(build_request(0), history, Policy()) for guard in GUARDS.values()] == [None] * len(GUARDS)
    assert combine_hold_backs(build_request(0, run="other"), history, Policy()) is not None


@pytest.mark.parametrize(("data", "holds"), [("of 0", True), ("of 0, a day of it published again", False), ("", False)])
def test_the_same_data_are_never_trained_on_twice(data: str, holds: bool) -> None:
    hold_back = guards.check_same_data(build_request(0, data=data), create_history(build_training(0, "failed")), OFF)
    assert bool(hold_back) == holds
    assert not hold_back or (hold_back.until is None and "r0 trained on the same data" in hold_back.why)


def test_drift_of_days_that_failed_validation_is_held_back_and_names_the_days() -> None:
    failed_validations = tuple(f"2013-05-2{n}: warning" for n in range(5))
    hold_back = guards.check_data_quality(build_request(failed_validations=failed_validations), create_history(), OFF)
    assert hold_back and hold_back.why.endswith("2013-05-22: warning; and 2 more")
    assert guards.check_data_quality(build_request(), create_history(), OFF) is None


def test_an_insufficient_budget_holds_back() -> None:
    assert guards.check_budget(build_request(budget_refusal="9 USD are more"), create_history(), OFF) == HoldBack(
        "budget", "9 USD are more"
    )
    assert guards.check_budget(build_request(), create_history(), OFF) is None


@pytest.mark.parametrize(
    ("outcomes", "holds"),
    [
        (["not_passed", "failed", "not_passed"], True),
        (["passed", "failed", "failed", "failed"], True),
        (["failed", "failed"], False),
        (["failed", "failed", "failed", "passed"], False),
        (["failed", "passed", "failed", "failed"], False),
    ],
)
def test_the_breaker_opens_after_several_trainings_in_a_row_that_did_not_pass(outcomes: list[str], holds: bool) -> None:
    history = create_history(*(build_training(20 * n, outcome) for n, outcome in enumerate(outcomes)))
    hold_back = guards.check_breaker(build_request(100), history, Policy(breaker_after=3, breaker_days=0))
    assert bool(hold_back) == holds
    assert not hold_back or ("loop reset m --why" in hold_back.why and hold_back.until is None)


def test_the_breaker_counts_trainings_by_drift_that_ended_before_the_moment() -> None:
    trainings = [build_training(20 * n, "failed") for n in range(3)]
    policy = Policy(breaker_after=3, breaker_days=0)
    assert guards.check_breaker(build_request(100), create_history(*trainings), policy)
    assert guards.check_breaker(build_request(30), create_history(*trainings), policy) is None, (
        "later trainings do not count"
    )
    scheduled_trainings = [build_training(20 * n, "failed", trigger="schedule") for n in range(3)]
    assert guards.check_breaker(build_request(100), create_history(*scheduled_trainings), policy) is None
    with_running = [*trainings[:2], build_start(40)]
    check = guards.check_breaker(build_request(100), create_history(*with_running), policy)
    assert check is None, "the third training may still pass"


def test_the_breaker_stays_open_until_its_reset_and_then_counts_from_zero() -> None:
    trainings = [build_training(20 * n, "failed") for n in range(3)]
    passed_by_hand = build_training(70, "passed", trigger="manual")
    policy = Policy(breaker_after=3, breaker_days=0)
    assert guards.check_breaker(build_request(300), create_history(*trainings, passed_by_hand), policy)
    history = create_history(*trainings, build_reset("m", "repaired", create_history(*trainings)))
    assert guards.check_breaker(build_request(300), history, policy) is None
    later_trainings = [build_training(100 + 20 * n, "failed") for n in range(3)]
    later_history = history
    for events in later_trainings:
        assert guards.check_breaker(build_request(300), later_history, policy) is None
        for event in events:
            later_history = later_history.add(event)
    assert guards.check_breaker(build_request(300), later_history, policy)


def test_a_reset_by_the_run_of_a_training_is_no_decision_about_it() -> None:
    start = build_start(0, run="r")
    history = create_history([start, build_reset("m", "repaired", create_history([start]), run="r")])
    assert history.find_last_decision("r") == start
    end = build_end("m", "r", "passed", "1", history)
    assert end and end.kind is Kind.ENDED


def test_the_breaker_lets_one_training_through_once_the_holdout_is_new() -> None:
    trainings = [build_training(20 * n, "not_passed") for n in range(3)]
    policy, history = Policy(breaker_after=3, breaker_days=28), create_history(*trainings)
    hold_back = guards.check_breaker(build_request(67), history, policy)
    assert hold_back and hold_back.until == compute_day(68)
    assert f"the breaker allows the next one as of {compute_day(68)}" in hold_back.why
    assert "loop reset m --why" in hold_back.why
    assert guards.check_breaker(build_request(68), history, policy) is None

    refused = create_history(*trainings, build_training(68, "not_passed"))
    hold_back = guards.check_breaker(build_request(69), refused, policy)
    assert hold_back and hold_back.until == compute_day(96), "a further refusal holds back again, for as long"
    passed = create_history(*trainings, build_training(68, "passed"))
    assert guards.check_breaker(build_request(69), passed, policy) is None


@pytest.mark.parametrize(
    ("trainings", "n", "until"),
    [
        ([(0, "passed", "drift")], 59, 60),
        ([(0, "not_passed", "schedule")], 59, 60),
        ([(0, "passed", "manual"), (30, "", "drift")], 60, 90),
        ([(0, "passed", "drift")], 60, None),
        ([(0, "passed", "drift"), (30, "failed", "drift")], 60, None),
        ([(0, "passed", "drift"), (30, "passed", "backfill")], 60, None),
        ([(90, "passed", "drift")], 60, None),
        ([], 60, None),
    ],
)
def test_the_schedule_trains_only_if_the_last_training_is_old(
    trainings: list[tuple[int, str, str]], n: int, until: int | None
) -> None:
    events = [
        build_training(day, outcome, trigger=trigger)[: 2 if outcome else 1] for day, outcome, trigger in trainings
    ]
    history, policy = create_history(*events), Policy(max_age_days=60)
    hold_back = combine_hold_backs(build_request(n, trigger="schedule"), history, policy)
    assert (hold_back and (hold_back.guard, hold_back.until)) == (until and ("age", compute_day(until)))
    assert combine_hold_backs(build_request(n, trigger="manual"), history, policy) is None
    assert combine_hold_backs(build_request(n, trigger="schedule"), history, Policy(max_age_days=0)) is None


# All guards together


@pytest.mark.parametrize("trigger", ["schedule", "manual", "backfill"])
def test_only_drift_is_held_back(trigger: str) -> None:
    reasons = {"failed_validations": ("all",), "budget_refusal": "much"}
    assert (
        combine_hold_backs(build_request(1, trigger=trigger, **reasons), create_history(build_start(0)), Policy())
        is None
    )
    assert combine_hold_backs(build_request(1, **reasons), create_history(build_start(0)), Policy())


def test_a_hold_back_names_the_most_serious_guard_and_gives_all_reasons() -> None:
    hold_back = combine_hold_backs(build_request(1, budget_refusal="much"), create_history(build_start(0)), Policy())
    assert hold_back and hold_back.guard == "in_flight"
    assert [word in hold_back.why for word in ("r0 trains", "the policy demands 14", "within a week", "much")] == [
        True
    ] * 4
    assert hold_back.until is None, "the guard holds back until the training ends"


def test_until_is_the_day_when_no_guard_holds_back_any_more() -> None:
    hold_back = combine_hold_backs(
        build_request(1), create_history(build_training(0)), Policy(cooldown_days=5, per_week=1)
    )
    assert hold_back and (hold_back.guard, hold_back.until) == ("cooldown", compute_day(7))
    assert (
        combine_hold_backs(build_request(7), create_history(build_training(0)), Policy(cooldown_days=5, per_week=1))
        is None
    )


def test_refuses_a_policy_with_unknown_or_invalid_fields() -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({"cooldown": 3})
    for fields in (
        {"per_week": 0},
        {"cooldown_days": -1},
        {"in_flight_h": 0},
        {"breaker_after": 0},
        {"breaker_days": -1},
    ):
        with pytest.raises(ValidationError):
            Policy.model_validate(fields)


# Answers to requests


def answer(history: History, request: Request, policy: Policy = OFF) -> tuple[Event | None, History]:
    event = build_decision(request, history, policy)
    return event, history.add(event) if event else history


def test_a_run_is_answered_once() -> None:
    start, history = answer(create_history(), build_request(0, run="a"), Policy())
    refusal, later_history = answer(history, build_request(1, run="b"), Policy())
    assert start and refusal and (start.kind, refusal.kind, refusal.guard) == ("started", "held_back", "in_flight")
    assert answer(later_history, build_request(0, run="a"), Policy())[0] is None
    assert answer(later_history, build_request(1, run="b"), Policy())[0] is None, "the guards are not run again"
    assert later_history.find_last_decision("b") == refusal


def test_a_cleared_run_starts_again_without_guards_and_is_one_training() -> None:
    history = create_history(build_training(0, "failed", run="a"))
    event, later_history = answer(history, build_request(0, run="a", failed_validations=("all",)), Policy())
    assert event and event.kind == "started" and event.id != history.events[0].id
    assert later_history.trainings["a"].outcome == ""
    assert len(later_history.trainings) == 1
    in_flight = guards.check_in_flight(build_request(30, now=event.at), later_history, Policy())
    assert in_flight, "the training runs again"
    end = build_end("m", "a", "passed", "1", later_history)
    assert end and end.id != history.events[1].id
    last = later_history.add(end)
    assert (last.trainings["a"].outcome, last.breaker_runs) == ("passed", ("a",))


def test_only_the_first_end_counts_and_only_a_started_training_can_end() -> None:
    history = create_history(build_training(0, "failed", run="a"))
    assert build_end("m", "a", "passed", "1", history) is None
    assert build_end("m", "b", "passed", "1", history) is None
    _, refused_history = answer(create_history(build_start(0)), build_request(1, run="b"), Policy())
    assert build_end("m", "b", "failed", "", refused_history) is None


def test_each_cause_alerts_once() -> None:
    alerts, history = [], create_history()
    failed_validations: dict[int, tuple[str, ...]] = {
        0: ("x",),
        1: ("x",),
        2: (),
        3: ("x",),
        4: ("x",),
        9: ("another day",),
    }
    for n, days in failed_validations.items():
        event, history = answer(history, build_request(n, run=f"r{n}", failed_validations=days))
        assert event
        alerts.append((str(event.kind), event.alert))
    assert alerts == [
        *(("held_back", True), ("held_back", False)),
        ("started", False),
        *(("held_back", True), ("held_back", False)),
        ("held_back", True),
    ]


def test_a_cooldown_does_not_alert() -> None:
    event, _ = answer(create_history(build_training(0)), build_request(1), Policy())
    assert event and (event.kind, event.guard, event.alert) == ("held_back", "cooldown", False)


# Many days of drift


def simulate_drift(
    policy: Policy, days: Iterable[int], choose_outcome: Callable[[int], str | None]
) -> tuple[list[int], History]:
    """Simulate drift on each day, and return the days that started a training. An outcome of None: it never ends."""
    history, started_days = create_history(), []
    for n in days:
        event, history = answer(history, build_request(n, run=f"r{n}", now=dt.datetime.now(dt.UTC)), policy)
        assert event
        if event.kind is not Kind.STARTED:
            continue
        started_days.append(n)
        outcome = choose_outcome(len(started_days))
        if outcome:
            end = build_end("m", f"r{n}", outcome, "1", history)
            assert end
            history = history.add(end)
    return started_days, history


SCENARIOS: dict[str, tuple[Policy, Callable[[int], str | None], list[int]]] = {
    "default cooldown": (Policy(), lambda _: "passed", [0, 14, 28]),
    "two a week": (OFF.model_copy(update={"per_week": 2}), lambda _: "passed", [0, 1, 7, 8, 14, 15, 21, 22, 28, 29]),
    "breaker": (Policy(cooldown_days=1, per_week=7, breaker_days=0), lambda _: "not_passed", [0, 1, 2]),
    "breaker that lets one through": (
        Policy(cooldown_days=1, per_week=7, breaker_days=10),
        lambda _: "not_passed",
        [0, 1, 2, 12, 22],
    ),
    "breaker that never opens": (OFF, lambda n: "not_passed", [*range(30)]),
    "first training never ends": (OFF, lambda _: None, [0]),
    "no guards": (OFF, lambda _: "passed", [*range(30)]),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_thirty_days_of_drift_start_exactly_the_trainings_that_the_policy_allows(name: str) -> None:
    policy, choose_outcome, expected = SCENARIOS[name]
    started_days, history = simulate_drift(policy, range(30), choose_outcome)
    assert started_days == expected
    assert len([event for event in history.events if event.kind is Kind.HELD_BACK]) == 30 - len(expected)


def test_requests_in_another_order_start_no_more_trainings() -> None:
    started_days, _ = simulate_drift(Policy(), reversed(range(30)), lambda _: "passed")
    assert started_days == [29, 15, 1]


def test_a_replay_after_later_trainings_decides_the_same() -> None:
    """Later moments, and trainings as of them, change nothing for an earlier moment."""
    started_days, _ = simulate_drift(Policy(), range(30), lambda _: "passed")
    history = create_history(*(build_training(100 + n, "failed", run=f"late{n}") for n in range(9)))
    replayed_days = []
    for n in range(30):
        event, history = answer(history, build_request(n, run=f"r{n}"), Policy())
        assert event
        if event.kind is Kind.STARTED:
            replayed_days.append(n)
            history = history.add(Event.create(Kind.ENDED, "m", f"r{n}", outcome="passed"))
    assert replayed_days == started_days
