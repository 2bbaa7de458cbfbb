"""Test the way from profiles to findings and decisions: days like the training do not drift, and shifted days do."""

import datetime as dt
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import DataError
from pipelines.monitoring import drift
from pipelines.monitoring import windows as monitoring
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.counting import count_days
from pipelines.monitoring.profiles.profile import Profile
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.profiles.reference import Reference, fit_reference

pytestmark = pytest.mark.usefixtures("home")
FIRST = dt.date(2013, 1, 7)
WEIGHTS = {"x": 0.6, "g": 0.3, "idle": 0.1}
POLICY = drift.Policy(min_rows=500)
Days = dict[dt.date, Profile]
RECORDS: dict[str, ReferenceRecord] = {}
"""Records of the fixtures. Each is built for the first test that needs it, and no test changes it."""


def build_frame(
    first: dt.date, days: int, seed: int, change: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
):
    random, rows = np.random.default_rng(seed), 400 * days
    chance = 1 / (1 + np.exp(-(x := random.normal(size=rows))))
    frame = pd.DataFrame({
        "date": [first + dt.timedelta(n // 400) for n in range(rows)], "x": x, "idle": random.normal(size=rows),
        "g": random.choice(["a", "b", "c"], rows), "score": chance, "late": random.random(rows) < chance,
    })  # fmt: skip
    return change(frame)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("monitoring")


@pytest.fixture
def record(folder: Path) -> ReferenceRecord:
    """Return the record of 28 days of training and 28 of holdout."""
    if "binary" not in RECORDS:
        train, holdout = folder / "train.parquet", folder / "holdout.parquet"
        build_frame(FIRST, 28, 1).drop(columns="score").to_parquet(train)
        build_frame(FIRST + dt.timedelta(28), 28, 2).to_parquet(holdout)
        reference = fit_reference(train, {"x": "number", "idle": "number", "g": "category"}, "late", BinPolicy())
        days = [count_days(reference, path, "date") for path in (train, holdout)]
        RECORDS["binary"] = ReferenceRecord(reference, *days)
    return RECORDS["binary"]


@pytest.fixture
def profile_days(record: ReferenceRecord, tmp_path: Path) -> Callable[..., Days]:
    def profile_changed_days(
        change: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame, number: int = 14
    ) -> Days:
        build_frame(FIRST + dt.timedelta(56), number, 3, change).to_parquet(tmp_path / "now.parquet")
        return count_days(record.reference, tmp_path / "now.parquet", "date")

    return profile_changed_days


def compare_all(record: ReferenceRecord, days: Days) -> list[drift.WindowResult]:
    return [window.result for window in monitoring.compare_windows(record, days, 7, WEIGHTS, POLICY, 1)]


def decide(record: ReferenceRecord, days: Days) -> drift.Decision:
    return drift.decide(compare_all(record, days), POLICY)


def test_days_like_those_of_the_training_do_not_drift(
    record: ReferenceRecord, profile_days: Callable[..., Days]
) -> None:
    results = compare_all(record, profile_days())
    assert [result.rows for result in results] == [2_800] * 8  # a window has all its days
    assert drift.decide(results, POLICY).outcome == "none"
    assert {finding.column for finding in results[-1].findings} == {"x", "idle", "g", "score", "late", "performance"}
    measures = {finding.measure for finding in results[-1].findings if finding.column == "performance"}
    assert measures >= {"auc", "estimated_auc"}


@pytest.mark.parametrize(
    ("change", "drifted_column"),
    [
        (lambda rows: rows.assign(x=rows["x"] + 1), "x"),
        (lambda rows: rows.assign(x=0.5), "x"),
        (lambda rows: rows.assign(g="new"), "g"),
        (lambda rows: rows.drop(columns="x"), "x"),
        (lambda rows: rows.assign(x="text"), "x"),
        (lambda rows: rows.assign(x=None), "x"),
        (lambda rows: rows.assign(score=np.minimum(rows["score"] + 0.2, 1.0)), "score"),
        (lambda rows: rows.assign(late=True), "late"),
        (lambda rows: rows.assign(late=np.random.default_rng(0).permutation(rows["late"])), "performance"),
    ],
    ids=["shift", "constant", "unseen", "missing", "other type", "null", "score", "rate", "performance"],
)
def test_a_decision_names_the_column_that_drifted(
    record: ReferenceRecord,
    profile_days: Callable[..., Days],
    change: Callable[[pd.DataFrame], pd.DataFrame],
    drifted_column: str,
) -> None:
    decision = decide(record, profile_days(change))
    assert decision.outcome == "drift"
    assert drifted_column in decision.drifted_columns, decision


def exaggerate(rows: pd.DataFrame) -> pd.DataFrame:
    """Make the scores too certain; their order, and so the AUC, stays."""
    return rows.assign(score=1 / (1 + np.exp(-3 * rows["x"])))


def test_the_estimated_auc_uses_the_probabilities_that_the_holdout_shows(folder: Path) -> None:
    """Scores that are too certain promise an AUC of 0.94; their labels have one of 0.74."""
    paths = [folder / f"certain-{name}.parquet" for name in ("train", "holdout", "now")]
    for n, (path, days) in enumerate(zip(paths, (28, 28, 7), strict=True)):
        build_frame(FIRST + dt.timedelta(28 * n), days, n + 1, exaggerate).to_parquet(path)
    reference = fit_reference(paths[0], {"x": "number", "idle": "number", "g": "category"}, "late", BinPolicy())
    training, holdout, window_days = (count_days(reference, path, "date") for path in paths)
    (window,) = monitoring.compare_windows(
        ReferenceRecord(reference, training, holdout), window_days, 7, WEIGHTS, POLICY, 1
    )
    estimated, measured = window.performance["estimated_auc"], window.performance["auc"]
    assert estimated.low < measured.value < estimated.high
    assert estimated.value == pytest.approx(measured.value, abs=0.03)
    (finding,) = [finding for finding in window.result.findings if finding.measure == "estimated_auc"]
    assert finding.effect is not None and finding.effect < 0.02


def test_the_estimated_auc_is_compared_with_that_of_the_holdout_by_scores(
    record: ReferenceRecord, profile_days: Callable[..., Days]
) -> None:
    """Rows that are harder to tell apart are a loss before any label is known."""
    narrow = profile_days(lambda rows: rows.assign(score=0.5 + 0.3 * (rows["score"] - 0.5), late=None))
    (finding,) = [f for f in compare_all(record, narrow)[-1].findings if f.measure == "estimated_auc"]
    assert finding.effect is not None and finding.effect > 0.1
    assert finding.p_value is not None and finding.p_value < 1e-6
    assert "performance" in decide(record, narrow).drifted_columns


def test_a_column_without_importance_to_the_model_does_not_alarm(
    record: ReferenceRecord, profile_days: Callable[..., Days]
) -> None:
    shifted_days = profile_days(lambda rows: rows.assign(idle=rows["idle"] + 1))
    results = [window.result for window in monitoring.compare_windows(record, shifted_days, 7, {"x": 1.0}, POLICY, 1)]
    assert drift.decide(results, POLICY).outcome == "none"
    assert decide(record, shifted_days).drifted_columns == ("idle",)


@pytest.mark.parametrize("weights", [{}, {"x": 0.0, "g": 0.0}])
def test_features_have_equal_weights_where_the_model_has_no_importances(
    weights: dict[str, float], record: ReferenceRecord, profile_days: Callable[..., Days]
) -> None:
    """With weights of 0, no drift of a feature would ever be an alarm."""
    shifted_days = profile_days(lambda rows: rows.assign(idle=rows["idle"] + 5))
    results = [window.result for window in monitoring.compare_windows(record, shifted_days, 7, weights, POLICY, 1)]
    assert drift.decide(results, POLICY).outcome == "drift"
    weights_of_features = {finding.weight for finding in results[-1].findings if finding.column in ("x", "g", "idle")}
    assert weights_of_features == {1 / 3}


def test_labels_that_are_not_known_yet_are_ignored(record: ReferenceRecord, profile_days: Callable[..., Days]) -> None:
    last = FIRST + dt.timedelta(56 + 13)
    true_days, changed_days = (
        profile_days(),
        profile_days(lambda rows: rows.assign(late=rows["late"] | (rows["date"] == last))),
    )
    true_result = compare_all(record, true_days)[-1]
    assert true_result == compare_all(record, changed_days)[-1]
    results = [window.result for window in monitoring.compare_windows(record, changed_days, 7, WEIGHTS, POLICY, 0)]
    assert results[-1] != true_result


def test_days_of_three_rows_and_days_without_labels_are_no_alarm(
    record: ReferenceRecord, profile_days: Callable[..., Days]
) -> None:
    days_of_three_rows = profile_days(lambda rows: rows.groupby("date").head(3))
    assert decide(record, days_of_three_rows).outcome == "undecided"
    days_without_labels = profile_days(lambda rows: rows.assign(late=pd.array([None] * len(rows), dtype="boolean")))
    result = compare_all(record, days_without_labels)[-1]
    assert {finding.measure for finding in result.findings if finding.column == "performance"} == {"estimated_auc"}
    assert decide(record, days_without_labels).outcome == "none"


def keep_four_labels(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the labels of the two highest and the two lowest scores of one day, and invert them."""
    day = rows[rows["date"] == FIRST + dt.timedelta(60)].sort_values("score").index
    late: Any = pd.Series(None, rows.index, dtype=object)
    late[day[:2]], late[day[-2:]] = True, False
    return rows.assign(late=late)


def test_the_first_few_labels_are_no_alarm(record: ReferenceRecord, profile_days: Callable[..., Days]) -> None:
    """Four rows in the wrong order have no variance: the loss would be certain, p = 0."""
    days_of_four_labels = profile_days(keep_four_labels)
    assert decide(record, days_of_four_labels).outcome == "none"
    (auc,) = [finding for finding in compare_all(record, days_of_four_labels)[-4].findings if finding.measure == "auc"]
    assert (auc.effect, auc.p_value, auc.note) == (
        None,
        None,
        "4 labelled rows, fewer than the 500 that a decision needs",
    )
    policy = drift.Policy(min_rows=4)
    results = [
        window.result for window in monitoring.compare_windows(record, days_of_four_labels, 7, WEIGHTS, policy, 1)
    ]
    assert "performance" in drift.decide(results[:-3], policy).drifted_columns  # negative control


def test_a_window_does_not_depend_on_later_days(record: ReferenceRecord, profile_days: Callable[..., Days]) -> None:
    all_days = profile_days()
    first_days = {day: profile for day, profile in all_days.items() if day <= FIRST + dt.timedelta(56 + 9)}
    assert compare_all(record, all_days)[:4] == compare_all(record, first_days) != []


def test_a_window_without_one_of_its_days_is_left_out_unless_the_day_stays_missing(
    record: ReferenceRecord, profile_days: Callable[..., Days]
) -> None:
    all_days = profile_days()
    gap = FIRST + dt.timedelta(56 + 3)
    incomplete = {day: profile for day, profile in all_days.items() if day != gap}
    assert [window.day for window in monitoring.compare_windows(record, incomplete, 7, WEIGHTS, POLICY, 1)] == [
        FIRST + dt.timedelta(56 + n) for n in (10, 11, 12, 13)
    ]
    windows = list(monitoring.compare_windows(record, incomplete, 7, WEIGHTS, POLICY, 1, {gap}))
    assert [window.day for window in windows] == [FIRST + dt.timedelta(56 + n) for n in range(6, 14)]
    assert [window.result.rows for window in windows] == [2_400] * 4 + [2_800] * 4


def test_a_window_is_compared_with_the_same_weeks_of_the_year_before(
    folder: Path, profile_days: Callable[..., Days]
) -> None:
    """Last year, the same weeks were like the window, and the other weeks were not."""
    season = [FIRST + dt.timedelta(56 + n - 365) for n in range(-14, 14 + 14)]
    year = build_frame(season[0] - dt.timedelta(60), 130, 4)
    year["x"] += np.where(year["date"].isin(season), 1.0, 0.0)
    path = folder / "year.parquet"
    year.to_parquet(path)
    reference = fit_reference(path, {"x": "number", "idle": "number", "g": "category"}, "late", BinPolicy())
    path_of_window = folder / "window.parquet"
    build_frame(FIRST + dt.timedelta(56), 14, 3, lambda rows: rows.assign(x=rows["x"] + 1)).to_parquet(path_of_window)
    window_days = count_days(reference, path_of_window, "date")
    year_record = ReferenceRecord(reference, count_days(reference, path, "date"), count_days(reference, path, "date"))
    other_days = {day: profile for day, profile in year_record.training.items() if day not in season}

    def compute_effect(record: ReferenceRecord) -> float:
        *_, last = monitoring.compare_windows(record, window_days, 7, WEIGHTS, POLICY, 1)
        findings = (finding for finding in last.result.findings if (finding.column, finding.measure) == ("x", "psi"))
        return next(finding.effect or 0.0 for finding in findings)

    assert compute_effect(year_record) < 0.1 < compute_effect(ReferenceRecord(reference, other_days, other_days))


def test_refuses_profiles_of_another_reference(record: ReferenceRecord, profile_days: Callable[..., Days]) -> None:
    profiles = {day: replace(profile, reference="other") for day, profile in profile_days().items()}
    with pytest.raises(DataError, match="another reference"):
        compare_all(record, profiles)


UNUSUAL_VALUES = {
    "constant": [3.0],
    "no_value": [np.nan],
    "infinite": [np.inf, -np.inf, 1.0],
    "infinite_or_none": [np.nan, np.inf],
    "large": [1e308, -1e308],
}


@pytest.mark.slow
def test_unusual_values_that_the_training_has_too_are_no_alarm(tmp_path: Path) -> None:
    """A column is constant, has no value, is infinite or nears the largest number: nothing divides by zero."""

    def set_unusual(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(**{name: np.resize(values, len(rows)) for name, values in UNUSUAL_VALUES.items()})

    def set_usual(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(**dict.fromkeys(UNUSUAL_VALUES, rows["idle"]))

    kinds = {"x": "number", "g": "category", **dict.fromkeys(UNUSUAL_VALUES, "number")}
    weights = {"x": 0.6, "g": 0.3, **dict.fromkeys(UNUSUAL_VALUES, 0.5)}
    paths = [tmp_path / f"{name}.parquet" for name in ("train", "holdout", "now")]
    for n, path in enumerate(paths):
        build_frame(FIRST + dt.timedelta(28 * n), 28, n + 1, set_unusual).to_parquet(path)
    reference = fit_reference(paths[0], kinds, "late", BinPolicy())
    training, holdout, window_days = (count_days(reference, path, "date") for path in paths)
    record = ReferenceRecord(reference, training, holdout)
    results = [window.result for window in monitoring.compare_windows(record, window_days, 7, weights, POLICY, 1)]
    assert drift.decide(results, POLICY).outcome == "none"
    findings = [finding for finding in results[-1].findings if finding.column in UNUSUAL_VALUES]
    assert {finding.column for finding in findings} == set(UNUSUAL_VALUES)
    assert all(
        np.isfinite(value) for finding in findings for value in (finding.effect, finding.p_value) if value is not None
    )
    # Negative control: the same columns with usual values are drift.
    build_frame(FIRST + dt.timedelta(56), 28, 3, set_usual).to_parquet(paths[2])
    usual_days = count_days(reference, paths[2], "date")
    usual_results = [window.result for window in monitoring.compare_windows(record, usual_days, 7, weights, POLICY, 1)]
    assert set(drift.decide(usual_results, POLICY).drifted_columns) == set(UNUSUAL_VALUES)


def test_days_in_any_order_give_the_same_windows(record: ReferenceRecord, profile_days: Callable[..., Days]) -> None:
    ordered_days = profile_days()
    shuffled_days = dict(reversed(ordered_days.items()))
    assert list(shuffled_days) != list(ordered_days)
    assert compare_all(record, shuffled_days) == compare_all(record, ordered_days)


def make_numeric(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace the labels and scores of a binary model by those of a regression."""
    noise = np.random.default_rng(len(frame)).normal(0.0, 5.0, size=len(frame))
    return frame.assign(late=(30.0 + 10.0 * frame["x"] + noise).round(), score=30.0 + 10.0 * frame["x"])


def shuffle_errors(frame: pd.DataFrame) -> pd.Series:
    """Return labels with the same distribution and errors that are larger by half."""
    random = np.random.default_rng(4)
    noisy = frame["late"] + random.normal(0.0, 9.0, size=len(frame))
    return frame["late"].sort_values(ignore_index=True).set_axis(noisy.sort_values().index).sort_index()


@pytest.fixture
def numeric_record(folder: Path) -> ReferenceRecord:
    if "numeric" not in RECORDS:
        train, holdout = folder / "numeric_train.parquet", folder / "numeric_holdout.parquet"
        build_frame(FIRST, 28, 1, make_numeric).drop(columns="score").to_parquet(train)
        build_frame(FIRST + dt.timedelta(28), 28, 2, make_numeric).to_parquet(holdout)
        reference = fit_reference(train, {"x": "number", "g": "category"}, "late", BinPolicy(), "regression")
        days = [count_days(reference, path, "date") for path in (train, holdout)]
        RECORDS["numeric"] = ReferenceRecord(reference, *days)
    return RECORDS["numeric"]


@pytest.mark.parametrize(
    ("change", "drifted_columns"),
    [
        (make_numeric, []),
        (lambda rows: make_numeric(rows).assign(score=lambda frame: frame["score"] + 15.0), ["score"]),
        (lambda rows: make_numeric(rows).assign(late=lambda frame: frame["late"] + 15.0), ["late"]),
        (lambda rows: make_numeric(rows).assign(late=shuffle_errors), ["performance"]),
    ],
    ids=["none", "scores", "labels", "errors"],
)
def test_scores_and_labels_of_a_regression_are_compared_as_numbers(
    numeric_record: ReferenceRecord,
    tmp_path: Path,
    change: Callable[[pd.DataFrame], pd.DataFrame],
    drifted_columns: list[str],
) -> None:
    numeric_record.write(tmp_path / "reference.json")
    record = ReferenceRecord.read(tmp_path / "reference.json")
    assert record.reference.digest == numeric_record.reference.digest
    build_frame(FIRST + dt.timedelta(56), 14, 3, change).to_parquet(tmp_path / "now.parquet")
    days = count_days(record.reference, tmp_path / "now.parquet", "date")
    decision = decide(record, days)
    assert set(drifted_columns) <= set(decision.drifted_columns) <= {*drifted_columns, "performance"}
    assert decision.outcome == ("drift" if drifted_columns else "none")
    first = next(iter(days.values()))
    assert sum(first["late"].counts) == sum(first["score"].counts) == first.rows
    rows = pd.read_parquet(tmp_path / "now.parquet").query("date == date.min()")
    errors = (rows["score"] - rows["late"]).abs()
    assert first.errors.counts == (first.labelled_rows,) == (len(errors),)
    assert first.errors.sums == pytest.approx((errors.sum(), (errors**2).sum()))
    measured = monitoring.measure_days(days, POLICY)["mae"]
    assert measured.low < measured.value < measured.high


def test_the_digest_of_a_binary_reference_is_that_of_earlier_releases() -> None:
    reference = Reference(label="late", numbers=(), categories=())
    text = '{"label":"late","numbers":[],"categories":[]}'
    assert reference.digest == hashlib.sha256(text.encode()).hexdigest()
