"""What the loop was worth: who served on which day, the weeks' AUC, what is said of it, and the page."""

import datetime as dt
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.loop import report
from pipelines.loop.study import (
    DRIFT,
    MONTHLY,
    NEVER,
    Moment,
    Served,
    Strategy,
    Study,
    Week,
    compare_strategies,
    score_week,
)
from pipelines.window import Days

FIRST = dt.date(2013, 3, 1)


def strategy(name: str, *served: tuple[str, int]) -> Strategy:
    """Of versions, each with the days after the first from which on it served."""
    told = [Served(version, FIRST + dt.timedelta(days)) for version, days in served]
    return Strategy(name, "a rule", told, [f"run {one.version}" for one in told], 0.5)


STRATEGIES = [strategy(NEVER, ("1", 0)), strategy(MONTHLY, ("1", 0), ("2", 4)), strategy(DRIFT, ("1", 0), ("3", 2))]


def week(number: int, **auc: float) -> Week:
    first = FIRST + dt.timedelta(7 * number)
    return Week(Days(first, first + dt.timedelta(6)), 100, {NEVER: 0.6, MONTHLY: 0.7, DRIFT: 0.7} | auc)


def test_a_day_is_served_by_the_newest_of_before_it() -> None:
    assert [STRATEGIES[2].version_on(FIRST + dt.timedelta(n)) for n in (0, 1, 2, 6)] == ["1", "1", "3", "3"]


def test_each_day_is_scored_by_the_version_that_served_on_it() -> None:
    days = Days(FIRST, FIRST + dt.timedelta(5))
    frame = pd.DataFrame({"date": [day for day in days for _ in range(10)]})
    frame["late"] = np.tile([True, False], 30)
    good, bad = frame["late"].astype(float), 1 - frame["late"].astype(float)
    scorers = {"1": lambda _: bad, "2": lambda _: good, "3": lambda _: good}
    found = score_week(days, frame, "late", STRATEGIES, scorers)
    assert found is not None
    # Never: 6 days of a score that is always wrong. Monthly: 2 of 6 days right. Drift: 4 of 6.
    assert (found.rows, found.auc[NEVER]) == (60, 0.0)
    assert found.auc[MONTHLY] == pytest.approx(1 / 3) and found.auc[DRIFT] == pytest.approx(2 / 3)
    assert score_week(days, frame.assign(late=True), "late", STRATEGIES, scorers) is None


@pytest.mark.parametrize(
    ("drift", "words"),
    [([0.7, 0.71, 0.7], "better"), ([0.5, 0.51, 0.5], "worse"), ([0.9, 0.4, 0.6], "no clear difference")],
)
def test_whether_it_paid_is_said_as_it_is(drift: list[float], words: str) -> None:
    weeks = [week(n, **{DRIFT: one}) for n, one in enumerate(drift)]
    found = compare_strategies(weeks, DRIFT, NEVER)
    assert found is not None and found.words == words
    assert found.mean == pytest.approx(np.mean(drift) - 0.6)
    assert found.low <= found.mean <= found.high
    assert compare_strategies(weeks[:1], DRIFT, NEVER) is None


def test_the_page_says_it_and_shows_what_happened(tmp_path: Path) -> None:
    moments = [Moment(FIRST, "started", "<wind>: psi 0.4"), Moment(FIRST, "held_back", "cooldown: too soon")]
    weeks = [week(n, **{DRIFT: 0.5 + n / 1_000}) for n in range(5)]
    page = report.write_report(tmp_path / "page", Study("flights", "flights", 7, weeks, STRATEGIES, moments))
    text = page.read_text()
    assert "on drift against never retrain: worse" in text
    assert "&lt;wind&gt;: psi 0.4" in text and "cooldown: too soon" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert sorted(one.name for one in page.parent.iterdir()) == ["loop.html", "weeks.png"]


def test_what_the_same_guard_holds_back_day_after_day_is_one_row(tmp_path: Path) -> None:
    day = dt.timedelta(1)
    held = [(0, "cooldown: 1 day"), (1, "cooldown: 2 days"), (2, "breaker: three"), (4, "cooldown: again")]
    moments = [Moment(FIRST + n * day, "held_back", words) for n, words in held]
    moments[3:3] = [Moment(FIRST + 3 * day, "started", "a: psi"), Moment(FIRST + 3 * day, "started", "a: psi")]
    weeks = [week(n, **{DRIFT: 0.5}) for n in range(2)]
    text = report.write_report(tmp_path, Study("flights", "flights", 7, weeks, STRATEGIES, moments)).read_text()
    assert f"<td>{FIRST} to {FIRST + day}, 2 times</td><td>held back</td><td>cooldown: 2 days</td>" in text
    assert "cooldown: 1 day<" not in text
    assert text.count("<td>held back</td>") == 3 and text.count("<td>started</td>") == 2
