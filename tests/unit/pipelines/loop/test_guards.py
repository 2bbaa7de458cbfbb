"""Each guard, and what it must let through; and a storm against all of them."""

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.loop import GUARDS, Event, History, HoldBack, Kind, Policy, Request, combine_hold_backs, fold, guards
from pipelines.loop.transitions import answer_request, end_training, reset_breaker

DAY = dt.date(2013, 6, 1)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OFF = Policy(cooldown_days=0, per_week=1_000, breaker_after=1_000)
"""Nothing but what is the same for every policy."""


@pytest.fixture(autouse=True)
def here(home: Path) -> None:
    """Settings of the test's own."""


def day(n: int) -> dt.date:
    return DAY + dt.timedelta(n)


def request(n: int = 0, run: str = "asked", **more: Any) -> Request:
    given = {
        "model": "m",
        "run": run,
        "as_of": day(n),
        "trigger": "drift",
        "now": NOW,
        "data": f"of {n}",
        "worst": ("x",),
    }
    return Request(**{**given, **more})


def started(n: int, run: str = "", trigger: str = "drift", ago_h: float = 1.0, **more: Any) -> Event:
    told = {"as_of": day(n), "trigger": trigger, "data": f"of {n}", **more}
    event = Event.create(Kind.STARTED, "m", run or f"r{n}", **told)
    return Event(**{**vars(event), "at": NOW - dt.timedelta(hours=ago_h)})


def over(n: int, outcome: str = "not_passed", **more: Any) -> list[Event]:
    """A training that has ended."""
    first = started(n, **more)
    return [first, Event.create(Kind.ENDED, "m", first.run, outcome=outcome, as_of=day(n), trigger=first.trigger)]


def history(*events: Event | list[Event]) -> History:
    return fold(one for told in events for one in (told if isinstance(told, list) else [told]))


# A guard at a time.


@pytest.mark.parametrize(
    ("days", "holds"), [(0, True), (13, True), (14, False), (40, False), (-13, True), (-14, False)]
)
def test_cooldown_is_of_moments_on_both_sides(days: int, holds: bool) -> None:
    told = guards.check_cooldown(request(days), history(over(0)), Policy(cooldown_days=14))
    assert (told is not None) == holds
    if told:
        assert told.until == day(14)
        side = "before" if days >= 0 else "after"
        assert f"{abs(days)} day(s) {side} {day(days)}: the policy demands 14" in told.why


def test_cooldown_of_no_days_or_after_nothing_holds_nothing() -> None:
    assert guards.check_cooldown(request(0), history(over(0)), Policy(cooldown_days=0)) is None
    assert guards.check_cooldown(request(0), history(), Policy()) is None


@pytest.mark.parametrize("trigger", ["drift", "schedule", "manual", "backfill"])
def test_whoever_started_a_training_it_counts_but_for_a_backfill(trigger: str) -> None:
    before = history(started(0, trigger=trigger, data="of 1"))
    counting = (guards.check_cooldown, guards.check_per_week, guards.check_in_flight, guards.check_same_data)
    assert {bool(guard(request(1), before, Policy())) for guard in counting} == {trigger != "backfill"}


@pytest.mark.parametrize(
    ("before", "n", "until"),
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
def test_at_most_so_many_in_any_seven_days(before: list[int], n: int, until: int | None) -> None:
    trained, policy = history(*(over(one) for one in before)), Policy(per_week=2)
    told = guards.check_per_week(request(n), trained, policy)
    assert (told.until if told else None) == (None if until is None else day(until))
    if until is not None:
        assert guards.check_per_week(request(until), trained, policy) is None
        assert guards.check_per_week(request(until - 1), trained, policy) is not None


@pytest.mark.parametrize(("ago_h", "holds"), [(0.0, True), (95.9, True), (96.1, False), (-2.0, True)])
def test_one_at_a_time_until_it_ends_or_is_dead(ago_h: float, holds: bool) -> None:
    running = history(started(-60, ago_h=ago_h))
    assert bool(guards.check_in_flight(request(), running, Policy(in_flight_h=96))) == holds
    assert guards.check_in_flight(request(), history(over(-60, ago_h=ago_h)), Policy(in_flight_h=96)) is None


def test_a_run_does_not_stand_in_its_own_way() -> None:
    running = history(started(0, run="asked"))
    assert [guard(request(0), running, Policy()) for guard in GUARDS.values()] == [None] * len(GUARDS)
    assert combine_hold_backs(request(0, run="other"), running, Policy()) is not None


@pytest.mark.parametrize(("data", "holds"), [("of 0", True), ("of 0, a day of it published again", False), ("", False)])
def test_the_same_data_never_train_twice(data: str, holds: bool) -> None:
    told = guards.check_same_data(request(0, data=data), history(over(0, "failed")), OFF)
    assert bool(told) == holds
    assert not told or (told.until is None and "r0 trained on the very same data" in told.why)


def test_drift_of_data_that_did_not_pass_validation_is_named() -> None:
    broken = tuple(f"2013-05-2{n}: warning" for n in range(5))
    told = guards.check_data_quality(request(failed_validations=broken), history(), OFF)
    assert told and told.why.endswith("2013-05-22: warning; and 2 more")
    assert guards.check_data_quality(request(), history(), OFF) is None


def test_budget_that_does_not_allow_it_holds() -> None:
    assert guards.check_budget(request(over_budget="9 USD are more"), history(), OFF) == HoldBack(
        "budget", "9 USD are more"
    )
    assert guards.check_budget(request(), history(), OFF) is None


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
def test_breaker_opens_after_so_many_that_did_not_pass(outcomes: list[str], holds: bool) -> None:
    tried = history(*(over(20 * n, outcome) for n, outcome in enumerate(outcomes)))
    told = guards.check_breaker(request(100), tried, Policy(breaker_after=3))
    assert bool(told) == holds
    assert not told or "loop reset m --why" in told.why


def test_breaker_counts_what_drift_started_and_ended_up_to_the_moment() -> None:
    three = [over(20 * n, "failed") for n in range(3)]
    policy = Policy(breaker_after=3)
    assert guards.check_breaker(request(100), history(*three), policy)
    assert guards.check_breaker(request(30), history(*three), policy) is None, "a replay knows nothing of later ones"
    others = [over(20 * n, "failed", trigger="schedule") for n in range(3)]
    assert guards.check_breaker(request(100), history(*others), policy) is None
    running = [*three[:2], started(40)]
    assert guards.check_breaker(request(100), history(*running), policy) is None, "the third may pass yet"


def test_breaker_stays_open_until_it_is_reset_and_then_counts_anew() -> None:
    three = [over(20 * n, "failed") for n in range(3)]
    passed_by_hand = over(70, "passed", trigger="manual")
    policy = Policy(breaker_after=3)
    assert guards.check_breaker(request(300), history(*three, passed_by_hand), policy)
    closed = history(*three, reset_breaker("m", "mended", history(*three)))
    assert guards.check_breaker(request(300), closed, policy) is None
    more = [over(100 + 20 * n, "failed") for n in range(3)]
    opened = closed
    for events in more:
        assert guards.check_breaker(request(300), opened, policy) is None
        for event in events:
            opened = opened.add(event)
    assert guards.check_breaker(request(300), opened, policy)


# All of them.


@pytest.mark.parametrize("trigger", ["schedule", "manual", "backfill"])
def test_only_drift_is_held_back(trigger: str) -> None:
    wrong = {"failed_validations": ("all",), "over_budget": "much"}
    assert combine_hold_backs(request(1, trigger=trigger, **wrong), history(started(0)), Policy()) is None
    assert combine_hold_backs(request(1, **wrong), history(started(0)), Policy())


def test_the_gravest_guard_is_named_and_all_are_told() -> None:
    told = combine_hold_backs(request(1, over_budget="much"), history(started(0)), Policy())
    assert told and told.guard == "in_flight"
    assert [word in told.why for word in ("r0 trains", "the policy demands 14", "in the week", "much")] == [True] * 4
    assert told.until is None, "a training has to end first"


def test_until_is_when_the_last_of_them_lets_through() -> None:
    told = combine_hold_backs(request(1), history(over(0)), Policy(cooldown_days=5, per_week=1))
    assert told and (told.guard, told.until) == ("cooldown", day(7))
    assert combine_hold_backs(request(7), history(over(0)), Policy(cooldown_days=5, per_week=1)) is None


def test_a_policy_with_a_word_it_does_not_know_is_refused() -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({"cooldown": 3})
    for wrong in ({"per_week": 0}, {"cooldown_days": -1}, {"in_flight_h": 0}, {"breaker_after": 0}):
        with pytest.raises(ValidationError):
            Policy.model_validate(wrong)


# What was answered.


def ask(before: History, asked: Request, policy: Policy = OFF) -> tuple[Event | None, History]:
    event = answer_request(asked, before, policy)
    return event, before.add(event) if event else before


def test_a_run_is_answered_once() -> None:
    first, then = ask(history(), request(0, run="a"), Policy())
    no, last = ask(then, request(1, run="b"), Policy())
    assert first and no and (first.kind, no.kind, no.guard) == ("started", "held_back", "in_flight")
    assert ask(last, request(0, run="a"), Policy())[0] is None
    assert ask(last, request(1, run="b"), Policy())[0] is None, "nor when the guards would say otherwise by now"
    assert last.last_answer("b") == no


def test_a_run_that_ended_and_was_cleared_starts_again_unguarded_and_is_one_training() -> None:
    done = history(over(0, "failed", run="a"))
    event, again = ask(done, request(0, run="a", failed_validations=("all",)), Policy())
    assert event and event.kind == "started" and event.id != done.events[0].id
    assert again.trainings["a"].outcome == ""
    assert len(again.trainings) == 1
    assert guards.check_in_flight(request(30, now=event.at), again, Policy()), "and runs"
    end = end_training("m", "a", "passed", "1", again)
    assert end and end.id != done.events[1].id
    last = again.add(end)
    assert (last.trainings["a"].outcome, last.breaker_runs) == ("passed", ("a",))


def test_the_first_word_on_an_end_stands_and_nothing_ends_that_was_not_started() -> None:
    done = history(over(0, "failed", run="a"))
    assert end_training("m", "a", "passed", "1", done) is None
    assert end_training("m", "b", "passed", "1", done) is None
    _, refused = ask(history(started(0)), request(1, run="b"), Policy())
    assert end_training("m", "b", "failed", "", refused) is None


def test_a_cause_alerts_once_and_the_next_one_again() -> None:
    alerts, so_far = [], history()
    broken: dict[int, tuple[str, ...]] = {
        0: ("x",),
        1: ("x",),
        2: (),
        3: ("x",),
        4: ("x",),
        9: ("another, days later",),
    }
    for n, found in broken.items():
        event, so_far = ask(so_far, request(n, run=f"r{n}", failed_validations=found))
        assert event
        alerts.append((str(event.kind), event.alert))
    assert alerts == [
        *(("held_back", True), ("held_back", False)),
        ("started", False),
        *(("held_back", True), ("held_back", False)),
        ("held_back", True),
    ]


def test_cooldown_does_not_alert() -> None:
    event, _ = ask(history(over(0)), request(1), Policy())
    assert event and (event.kind, event.guard, event.alert) == ("held_back", "cooldown", False)


# A storm.


def storm(policy: Policy, days: Iterable[int], outcome: Callable[[int], str | None]) -> tuple[list[int], History]:
    """Drift on each of the days; those on which a training started. `outcome` None: it never ends."""
    so_far, on = history(), []
    for n in days:
        event, so_far = ask(so_far, request(n, run=f"r{n}", now=dt.datetime.now(dt.UTC)), policy)
        assert event
        if event.kind is not Kind.STARTED:
            continue
        on.append(n)
        came = outcome(len(on))
        if came:
            end = end_training("m", f"r{n}", came, "1", so_far)  # type: ignore[arg-type]
            assert end
            so_far = so_far.add(end)
    return on, so_far


STORMS: dict[str, tuple[Policy, Callable[[int], str | None], list[int]]] = {
    "the cooldown of params.yaml": (Policy(), lambda _: "passed", [0, 14, 28]),
    "two a week": (OFF.model_copy(update={"per_week": 2}), lambda _: "passed", [0, 1, 7, 8, 14, 15, 21, 22, 28, 29]),
    "breaker": (Policy(cooldown_days=1, per_week=7), lambda _: "not_passed", [0, 1, 2]),
    "breaker, never": (OFF, lambda n: "not_passed", [*range(30)]),
    "the first never ends": (OFF, lambda _: None, [0]),
    "no guard holds": (OFF, lambda _: "passed", [*range(30)]),
}


@pytest.mark.parametrize("name", STORMS)
def test_of_thirty_days_of_drift_exactly_what_the_policy_allows_is_trained(name: str) -> None:
    policy, outcome, expected = STORMS[name]
    on, last = storm(policy, range(30), outcome)
    assert on == expected
    assert len([one for one in last.events if one.kind is Kind.HELD_BACK]) == 30 - len(expected)


def test_days_that_are_asked_about_in_any_order_start_no_more() -> None:
    on, _ = storm(Policy(), reversed(range(30)), lambda _: "passed")
    assert on == [29, 15, 1]


def test_a_replay_after_the_year_decides_as_the_year_did() -> None:
    """Later moments, and what was done as of them, change nothing for an earlier one."""
    on, _ = storm(Policy(), range(30), lambda _: "passed")
    later = history(*(over(100 + n, "failed", run=f"late{n}") for n in range(9)))
    again = []
    for n in range(30):
        event, later = ask(later, request(n, run=f"r{n}"), Policy())
        assert event
        if event.kind is Kind.STARTED:
            again.append(n)
            later = later.add(Event.create(Kind.ENDED, "m", f"r{n}", outcome="passed"))
    assert again == on
