"""From profiles to findings and decisions: days as they were trained on are no drift, planted shifts are."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.monitoring import drift
from pipelines.monitoring import windows as monitoring
from pipelines.monitoring.profiles import Policy
from pipelines.monitoring.profiles.counting import count_days
from pipelines.monitoring.profiles.record import Record
from pipelines.monitoring.profiles.reference import fit_reference

pytestmark = pytest.mark.usefixtures("home")
FIRST = dt.date(2013, 1, 7)
WEIGHTS = {"x": 0.6, "g": 0.3, "idle": 0.1}
RULES = drift.Policy(min_rows=500)
Days = dict[dt.date, monitoring.Profile]


def frame(first: dt.date, days: int, seed: int, change: Callable[[pd.DataFrame], pd.DataFrame] = lambda same: same):
    random, rows = np.random.default_rng(seed), 400 * days
    chance = 1 / (1 + np.exp(-(x := random.normal(size=rows))))
    made = pd.DataFrame({
        "date": [first + dt.timedelta(n // 400) for n in range(rows)], "x": x, "idle": random.normal(size=rows),
        "g": random.choice(["a", "b", "c"], rows), "score": chance, "late": random.random(rows) < chance,
    })  # fmt: skip
    return change(made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("monitoring")


@pytest.fixture
def record(folder: Path) -> Record:
    train, holdout = folder / "train.parquet", folder / "holdout.parquet"
    frame(FIRST, 28, 1).drop(columns="score").to_parquet(train)
    frame(FIRST + dt.timedelta(28), 28, 2).to_parquet(holdout)
    reference = fit_reference(train, {"x": "number", "idle": "number", "g": "category"}, "late", Policy())
    return Record(reference, count_days(reference, train, "date"), count_days(reference, holdout, "date"))


@pytest.fixture
def days(record: Record, tmp_path: Path) -> Callable[..., Days]:
    def made(change: Callable[[pd.DataFrame], pd.DataFrame] = lambda same: same, number: int = 14) -> Days:
        frame(FIRST + dt.timedelta(56), number, 3, change).to_parquet(tmp_path / "now.parquet")
        return count_days(record.reference, tmp_path / "now.parquet", "date")

    return made


def windows(record: Record, days: Days) -> list[drift.WindowResult]:
    return [one.result for one in monitoring.compare_windows(record, days, 7, WEIGHTS, RULES, 1)]


def decided(record: Record, days: Days) -> drift.Decision:
    return drift.decide(windows(record, days), RULES)


def test_days_like_those_of_the_training_do_not_drift(record: Record, days: Callable[..., Days]) -> None:
    told = windows(record, days())
    assert [one.rows for one in told] == [2_800] * 8  # none of fewer days than a window has
    assert decided(record, days()).outcome == "none"
    assert {one.column for one in told[-1].findings} == {"x", "idle", "g", "score", "late", "performance"}
    assert {one.measure for one in told[-1].findings if one.column == "performance"} >= {"auc", "estimated_auc"}


@pytest.mark.parametrize(
    ("change", "worst"),
    [
        (lambda now: now.assign(x=now["x"] + 1), "x"),
        (lambda now: now.assign(x=0.5), "x"),
        (lambda now: now.assign(g="new"), "g"),
        (lambda now: now.drop(columns="x"), "x"),
        (lambda now: now.assign(x="text"), "x"),
        (lambda now: now.assign(x=None), "x"),
        (lambda now: now.assign(score=np.minimum(now["score"] + 0.2, 1.0)), "score"),
        (lambda now: now.assign(late=True), "late"),
        (lambda now: now.assign(late=np.random.default_rng(0).permutation(now["late"])), "performance"),
    ],
    ids=["shift", "stuck", "unseen", "vanished", "retyped", "null", "score", "rate", "performance"],
)
def test_what_drifted_is_named(
    record: Record, days: Callable[..., Days], change: Callable[[pd.DataFrame], pd.DataFrame], worst: str
) -> None:
    told = decided(record, days(change))
    assert told.outcome == "drift"
    assert worst in told.worst, told


def test_what_does_not_matter_to_the_model_does_not_alarm(record: Record, days: Callable[..., Days]) -> None:
    shifted = days(lambda now: now.assign(idle=now["idle"] + 1))
    told = [one.result for one in monitoring.compare_windows(record, shifted, 7, {"x": 1.0}, RULES, 1)]
    assert drift.decide(told, RULES).outcome == "none"
    assert decided(record, shifted).worst == ("idle",)


@pytest.mark.parametrize("weights", [{}, {"x": 0.0, "g": 0.0}])
def test_of_a_model_that_tells_no_importance_each_feature_matters_the_same(
    weights: dict[str, float], record: Record, days: Callable[..., Days]
) -> None:
    """They would weigh nothing, and no drift of a feature would ever be told."""
    moved = days(lambda now: now.assign(idle=now["idle"] + 5))
    told = [one.result for one in monitoring.compare_windows(record, moved, 7, weights, RULES, 1)]
    assert drift.decide(told, RULES).outcome == "drift"
    assert {one.weight for one in told[-1].findings if one.column in ("x", "g", "idle")} == {1 / 3}


def test_labels_that_are_not_known_yet_are_not_looked_at(record: Record, days: Callable[..., Days]) -> None:
    last = FIRST + dt.timedelta(56 + 13)
    honest, planted = days(), days(lambda now: now.assign(late=now["late"] | (now["date"] == last)))
    assert windows(record, honest)[-1] == windows(record, planted)[-1]
    late = [one.result for one in monitoring.compare_windows(record, planted, 7, WEIGHTS, RULES, 0)]
    assert late[-1] != windows(record, honest)[-1]


def test_a_day_of_three_rows_and_one_without_labels_are_no_alarm(record: Record, days: Callable[..., Days]) -> None:
    few = days(lambda now: now.groupby("date").head(3))
    assert decided(record, few).outcome == "undecided"
    unlabelled = days(lambda now: now.assign(late=pd.array([None] * len(now), dtype="boolean")))
    told = windows(record, unlabelled)[-1]
    assert {one.measure for one in told.findings if one.column == "performance"} == {"estimated_auc"}
    assert decided(record, unlabelled).outcome == "none"


def labels_of_four_rows(now: pd.DataFrame) -> pd.DataFrame:
    """Only of the two highest and the two lowest scores of one day labels are known, and the other way around."""
    day = now[now["date"] == FIRST + dt.timedelta(60)].sort_values("score").index
    late = pd.Series(None, now.index, dtype=object)
    late[day[:2]], late[day[-2:]] = True, False
    return now.assign(late=late)


def test_a_few_labels_that_came_first_are_no_alarm(record: Record, days: Callable[..., Days]) -> None:
    """Four rows in the wrong order spread by nothing: the loss would be certain, p = 0."""
    few = days(labels_of_four_rows)
    assert decided(record, few).outcome == "none"
    (auc,) = [one for one in windows(record, few)[-4].findings if one.measure == "auc"]
    assert (auc.effect, auc.p_value, auc.note) == (None, None, "4 labelled rows, fewer than the 500 that decide")
    surely = drift.Policy(min_rows=4)
    told = [one.result for one in monitoring.compare_windows(record, few, 7, WEIGHTS, surely, 1)]
    assert "performance" in drift.decide(told[:-3], surely).worst  # the control


def test_a_decision_is_of_the_days_up_to_it(record: Record, days: Callable[..., Days]) -> None:
    calm = days()
    late = {day: one for day, one in calm.items() if day <= FIRST + dt.timedelta(56 + 9)}
    assert windows(record, calm)[:4] == windows(record, late) != []


def test_a_window_with_a_hole_is_none_unless_nobody_will_fill_it(record: Record, days: Callable[..., Days]) -> None:
    whole = days()
    gap = FIRST + dt.timedelta(56 + 3)
    holed = {day: one for day, one in whole.items() if day != gap}
    assert [one.day for one in monitoring.compare_windows(record, holed, 7, WEIGHTS, RULES, 1)] == [
        FIRST + dt.timedelta(56 + n) for n in (10, 11, 12, 13)
    ]
    told = list(monitoring.compare_windows(record, holed, 7, WEIGHTS, RULES, 1, {gap}))
    assert [one.day for one in told] == [FIRST + dt.timedelta(56 + n) for n in range(6, 14)]
    assert [one.result.rows for one in told] == [2_400] * 4 + [2_800] * 4


def test_of_a_reference_of_a_year_the_same_weeks_are_compared(folder: Path, days: Callable[..., Days]) -> None:
    """Last year's weeks were as the window is; the rest of that year was not."""
    season = [FIRST + dt.timedelta(56 + n - 365) for n in range(-14, 14 + 14)]
    year = frame(season[0] - dt.timedelta(60), 130, 4)
    year["x"] += np.where(year["date"].isin(season), 1.0, 0.0)
    path = folder / "year.parquet"
    year.to_parquet(path)
    reference = fit_reference(path, {"x": "number", "idle": "number", "g": "category"}, "late", Policy())
    frame(FIRST + dt.timedelta(56), 14, 3, lambda now: now.assign(x=now["x"] + 1)).to_parquet(folder / "now.parquet")
    now = count_days(reference, folder / "now.parquet", "date")
    whole = Record(reference, count_days(reference, path, "date"), count_days(reference, path, "date"))
    others = {day: one for day, one in whole.training.items() if day not in season}

    def effect(record: Record) -> float:
        *_, last = monitoring.compare_windows(record, now, 7, WEIGHTS, RULES, 1)
        return next(one.effect or 0.0 for one in last.result.findings if (one.column, one.measure) == ("x", "psi"))

    assert effect(whole) < 0.1 < effect(Record(reference, others, others))


def test_profiles_of_another_reference_are_refused(record: Record, days: Callable[..., Days]) -> None:
    other = {day: replace(one, reference="other") for day, one in days().items()}
    with pytest.raises(monitoring.DataError, match="another reference"):
        windows(record, other)


@pytest.mark.parametrize("odd", [[3.0], [np.nan], [np.inf, -np.inf, 1.0], [np.nan, np.inf], [1e308, -1e308]])
def test_what_was_odd_in_training_already_is_no_alarm(odd: list[float], tmp_path: Path) -> None:
    """Constant, without a value, infinite, near the end of what a number can be: counted, and nothing divides by it."""

    def change(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(idle=np.resize(odd, len(rows)))

    paths = [tmp_path / f"{name}.parquet" for name in ("train", "holdout", "now")]
    for n, path in enumerate(paths):
        frame(FIRST + dt.timedelta(28 * n), 28, n + 1, change).to_parquet(path)
    reference = fit_reference(paths[0], {"x": "number", "idle": "number", "g": "category"}, "late", Policy())
    trained, held, now = (count_days(reference, path, "date") for path in paths)
    told = list(
        monitoring.compare_windows(Record(reference, trained, held), now, 7, {**WEIGHTS, "idle": 0.5}, RULES, 1)
    )
    assert drift.decide([one.result for one in told], RULES).outcome == "none"
    found = [one for one in told[-1].result.findings if one.column == "idle"]
    assert found and all(
        np.isfinite(value) for one in found for value in (one.effect, one.p_value) if value is not None
    )
    # The same column, as it then is not: that is drift.
    frame(FIRST + dt.timedelta(56), 28, 3).to_parquet(paths[2])
    other = monitoring.compare_windows(
        Record(reference, trained, held), count_days(reference, paths[2], "date"), 7, {**WEIGHTS, "idle": 0.5}, RULES, 1
    )
    assert drift.decide([one.result for one in other], RULES).worst[0] == "idle"


def test_days_in_any_order_are_the_same_windows(record: Record, days: Callable[..., Days]) -> None:
    ordered = days()
    shuffled = dict(reversed(ordered.items()))
    assert list(shuffled) != list(ordered)
    assert windows(record, shuffled) == windows(record, ordered)
