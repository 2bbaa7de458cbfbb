"""Test what the loop is worth: who serves on which day, the AUC by week, the comparison of strategies, and the page."""

import datetime as dt
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.backtest.study import NEVER_STRATEGY
from pipelines.loop import report
from pipelines.loop.study import (
    DRIFT_STRATEGY,
    MONTHLY_STRATEGY,
    ServedVersion,
    Strategy,
    Study,
    TimelineEvent,
    Week,
    compare_strategies,
    score_week,
)
from pipelines.window import Days

FIRST = dt.date(2013, 3, 1)


def build_strategy(name: str, *served: tuple[str, int]) -> Strategy:
    """Build a strategy from versions, each with the day from which it serves, counted from the first day."""
    periods = [ServedVersion(version, FIRST + dt.timedelta(days)) for version, days in served]
    return Strategy(name, "a rule", periods, [f"run {period.version}" for period in periods], 0.5)


STRATEGIES = [
    build_strategy(NEVER_STRATEGY, ("1", 0)),
    build_strategy(MONTHLY_STRATEGY, ("1", 0), ("2", 4)),
    build_strategy(DRIFT_STRATEGY, ("1", 0), ("3", 2)),
]


def build_week(number: int, **auc: float) -> Week:
    first = FIRST + dt.timedelta(7 * number)
    return Week(
        Days(first, first + dt.timedelta(6)),
        100,
        {NEVER_STRATEGY: 0.6, MONTHLY_STRATEGY: 0.7, DRIFT_STRATEGY: 0.7} | auc,
    )


def test_a_day_is_served_by_the_newest_version_from_before_it() -> None:
    assert [STRATEGIES[2].find_version_on(FIRST + dt.timedelta(n)) for n in (0, 1, 2, 6)] == ["1", "1", "3", "3"]


def test_each_day_is_scored_by_the_version_that_served_on_it() -> None:
    days = Days(FIRST, FIRST + dt.timedelta(5))
    frame = pd.DataFrame({"date": [day for day in days for _ in range(10)]})
    frame["late"] = np.tile([True, False], 30)
    good_scores, bad_scores = frame["late"].astype(float), 1 - frame["late"].astype(float)
    scorers = {"1": lambda _: bad_scores, "2": lambda _: good_scores, "3": lambda _: good_scores}
    week = score_week(days, frame, "late", STRATEGIES, scorers)
    assert week is not None
    # Never: the score is wrong on all 6 days. Monthly: it is right on 2 of 6 days. On drift: on 4 of 6.
    assert (week.rows, week.values[NEVER_STRATEGY]) == (60, 0.0)
    assert week.values[MONTHLY_STRATEGY] == pytest.approx(1 / 3) and week.values[DRIFT_STRATEGY] == pytest.approx(2 / 3)
    assert score_week(days, frame.assign(late=True), "late", STRATEGIES, scorers) is None


@pytest.mark.parametrize(
    ("drift", "direction"),
    [([0.7, 0.71, 0.7], "better"), ([0.5, 0.51, 0.5], "worse"), ([0.9, 0.4, 0.6], "no clear difference")],
)
def test_a_comparison_says_better_worse_or_no_clear_difference(drift: list[float], direction: str) -> None:
    weeks = [build_week(n, **{DRIFT_STRATEGY: auc}) for n, auc in enumerate(drift)]
    gain = compare_strategies(weeks, DRIFT_STRATEGY, NEVER_STRATEGY)
    assert gain is not None and gain.direction == direction
    assert gain.mean == pytest.approx(np.mean(drift) - 0.6)
    assert gain.low <= gain.mean <= gain.high
    assert compare_strategies(weeks[:1], DRIFT_STRATEGY, NEVER_STRATEGY) is None


def test_the_page_shows_the_comparison_and_the_moments(tmp_path: Path) -> None:
    timeline = [
        TimelineEvent(FIRST, "started", "<wind>: psi 0.4"),
        TimelineEvent(FIRST, "held_back", "cooldown: too soon"),
    ]
    weeks = [build_week(n, **{DRIFT_STRATEGY: 0.5 + n / 1_000}) for n in range(5)]
    page = report.write_report(tmp_path / "page", Study("flights", "flights", 7, weeks, STRATEGIES, timeline))
    text = page.read_text()
    assert "on drift against never retrain: worse" in text
    assert "&lt;wind&gt;: psi 0.4" in text and "cooldown: too soon" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert sorted(path.name for path in page.parent.iterdir()) == ["loop.html", "weeks.png"]


def test_hold_backs_by_the_same_guard_on_consecutive_days_are_one_row(tmp_path: Path) -> None:
    day = dt.timedelta(1)
    hold_backs = [(0, "cooldown: 1 day"), (1, "cooldown: 2 days"), (2, "breaker: three"), (4, "cooldown: again")]
    timeline = [TimelineEvent(FIRST + n * day, "held_back", text) for n, text in hold_backs]
    timeline[3:3] = [
        TimelineEvent(FIRST + 3 * day, "started", "a: psi"),
        TimelineEvent(FIRST + 3 * day, "started", "a: psi"),
    ]
    weeks = [build_week(n, **{DRIFT_STRATEGY: 0.5}) for n in range(2)]
    text = report.write_report(tmp_path, Study("flights", "flights", 7, weeks, STRATEGIES, timeline)).read_text()
    assert f"<td>{FIRST} to {FIRST + day}, 2 times</td><td>held back</td><td>cooldown: 2 days</td>" in text
    assert "cooldown: 1 day<" not in text
    assert text.count("<td>held back</td>") == 3 and text.count("<td>started</td>") == 2
