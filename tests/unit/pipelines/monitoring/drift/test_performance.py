"""Performance from counts: scikit-learn's on binned scores; its intervals; and CBPE beside NannyML's formula."""

import numpy as np
import pytest
from sklearn.metrics import auc, brier_score_loss, confusion_matrix, log_loss, roc_auc_score

from pipelines.errors import DataError
from pipelines.evaluation.statistics import delong
from pipelines.monitoring.drift import performance
from pipelines.monitoring.drift.counts import Array

SCORE = (np.arange(20) + 0.5) / 20


def days(number: int, rows: int, seed: int = 1, day: float = 0.0, tell: float = 1.0) -> Array:
    """Counts of days, (days, bins, 2), of calibrated scores; each day's rate moves by `day`, on the logit."""
    random = np.random.default_rng(seed)
    place = random.binomial(19, random.beta(1.2, 3, (number, rows)))
    logit = np.log(SCORE / (1 - SCORE))[place] * tell + day * random.normal(size=(number, 1))
    label = random.random((number, rows)) < 1 / (1 + np.exp(-logit))
    counts = np.zeros((number, 20, 2))
    np.add.at(counts, (np.arange(number)[:, np.newaxis], place, label.astype(int)), 1)
    return counts


def rows_of(counts: Array) -> tuple[Array, Array]:
    """Labels and scores, a row each."""
    bins, labels = np.nonzero(counts)
    often = counts[bins, labels].astype(int)
    return np.repeat(labels, often), np.repeat(SCORE[bins], often)


def test_metrics_are_scikit_learns_on_binned_scores() -> None:
    counts = days(1, 3_000)[0]
    label, score = rows_of(counts)
    found = performance.measure_performance(counts, SCORE, 0.05)
    assert found["auc"].value == pytest.approx(roc_auc_score(label, score), abs=1e-12)
    assert found["brier"].value == pytest.approx(brier_score_loss(label, score), abs=1e-12)
    assert found["log_loss"].value == pytest.approx(log_loss(label, score), abs=1e-12)
    gaps = [abs((label - score)[score == one].sum()) for one in SCORE]
    assert found["ece"].value == pytest.approx(sum(gaps) / len(label), abs=1e-12)
    assert found["auc"].rows == 3_000


def test_a_certain_and_wrong_score_has_a_finite_loss() -> None:
    counts = np.array([[5.0, 1], [1, 5]])
    label, score = np.array([0] * 5 + [1] + [0] + [1] * 5), np.array([0.0] * 6 + [1.0] * 6)
    found = performance.measure_performance(counts, np.array([0.0, 1.0]), 0.05)["log_loss"]
    assert found.value == pytest.approx(log_loss(label, score), abs=1e-9)


def test_the_interval_of_rows_is_near_delongs() -> None:
    counts = days(1, 3_000)[0]
    found, theirs = (
        performance.measure_performance(counts, SCORE, 0.05)["auc"],
        delong.estimate_auc(*rows_of(counts), 0.05),
    )
    assert found.se == pytest.approx(theirs.se, rel=0.01)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-3)


def test_the_interval_of_days_covers_and_that_of_rows_does_not() -> None:
    truth = {
        name: one.value for name, one in performance.measure_performance(days(4_000, 300, 99, 0.8), SCORE, 0.05).items()
    }

    def covered(by_day: bool, name: str) -> float:
        hits = 0
        for seed in range(200):
            counts = days(20, 300, seed, 0.8)
            found = performance.measure_performance(counts if by_day else counts.sum(axis=0), SCORE, 0.05)[name]  # type: ignore[index]
            hits += found.low <= truth[name] <= found.high  # type: ignore[index]
        return hits / 200

    # 90 %, less three standard errors of the simulation.
    assert covered(True, "brier") > 0.83 and covered(True, "auc") > 0.83
    # Negative control.
    assert covered(False, "brier") < 0.7


def test_without_both_labels_nothing_is_measured() -> None:
    counts = days(3, 100)
    counts[..., 1] = 0
    assert performance.measure_performance(counts, SCORE, 0.05) == {}
    assert performance.measure_performance(np.zeros((20, 2)), SCORE, 0.05) == {}
    assert performance.estimate_performance(np.zeros(20), SCORE, 0.05) == {}
    with pytest.raises(DataError, match="do not fit 20 bins"):
        performance.measure_performance(np.ones((3, 2)), SCORE, 0.05)


def test_one_row_of_a_label_is_measured_and_unsure() -> None:
    counts = np.zeros((2, 20, 2))
    counts[0, 5, 0], counts[1, 7, 1] = 50, 1
    found = performance.measure_performance(counts, SCORE, 0.05)["auc"]
    assert found.value == 1 and found.se == 0.5 and all(np.isfinite([found.low, found.high]))


def nannymls_auc(score: Array) -> float:
    """NannyML's estimate_roc_auc: the area under the expected confusion at each score; closed at (0, 0)."""
    thresholds = np.sort(score)
    true, false = (np.cumsum(one[::-1])[::-1] for one in (thresholds, 1 - thresholds))
    missed, rejected = (np.append(0, np.cumsum(one)[:-1]) for one in (thresholds, 1 - thresholds))
    distinct = np.diff(thresholds, prepend=-1).astype(bool)
    tpr, fpr = (true / (true + missed))[distinct], (false / (false + rejected))[distinct]
    return float(auc(np.append(fpr, 0), np.append(tpr, 0)))


def test_the_estimate_is_nannymls() -> None:
    histogram = days(1, 2_000)[0].sum(axis=1)
    found = performance.estimate_performance(histogram, SCORE, 0.05)["estimated_auc"]
    assert found.value == pytest.approx(nannymls_auc(np.repeat(SCORE, histogram.astype(int))), abs=1e-9)


def test_the_expected_confusion_is_that_of_the_labels_on_average() -> None:
    counts = days(1, 200_000)[0]
    label, score = rows_of(counts)
    ((tn, fp), (fn, tp)) = confusion_matrix(label, score >= 0.5) / len(label)
    told = performance.count_confusion(counts, 10)
    assert [
        told[one] / len(label) for one in ("true_negative", "false_positive", "false_negative", "true_positive")
    ] == (pytest.approx([tn, fp, fn, tp]))
    expected = performance.count_confusion(performance.expect_counts(counts.sum(axis=1), SCORE), 10)
    assert [one / len(label) for one in expected.values()] == pytest.approx([tn, fn, fp, tp], abs=0.005)


def test_the_estimates_error_is_that_of_the_labels_to_come() -> None:
    errors, told = [], []
    for seed in range(300):
        counts = days(1, 500, seed)[0]
        estimate = performance.estimate_performance(counts.sum(axis=1), SCORE, 0.05)["estimated_auc"]
        errors.append(estimate.value - performance.measure_performance(counts, SCORE, 0.05)["auc"].value)
        told.append(estimate.se)
    # That of the difference to the labels' AUC is a little less: both are of the same scores.
    assert 0.8 < np.std(errors) / np.mean(told) <= 1.05
    # Of calibrated scores it has no bias; of others it has (negative control).
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(300)
    flat = days(1, 100_000, tell=0.4)[0]
    promised = performance.estimate_performance(flat.sum(axis=1), SCORE, 0.05)["estimated_auc"].value
    assert promised > performance.measure_performance(flat, SCORE, 0.05)["auc"].value + 0.05


def test_calibration_mends_scores_that_are_not() -> None:
    holdout, later = days(1, 100_000, 1, tell=0.4)[0], days(1, 100_000, 2, tell=0.4)[0]
    chance = performance.calibrate_scores(holdout, SCORE)
    assert (np.diff(chance) >= 0).all() and ((chance >= 0) & (chance <= 1)).all()
    promised = performance.estimate_performance(later.sum(axis=1), chance, 0.05)["estimated_auc"].value
    assert promised == pytest.approx(performance.measure_performance(later, SCORE, 0.05)["auc"].value, abs=0.01)
    assert performance.calibrate_scores(np.zeros((20, 2)), SCORE) == pytest.approx(SCORE)


def test_a_loss_against_the_holdout_is_one_sided() -> None:
    then = performance.measure_performance(days(28, 500, 1), SCORE, 0.05)
    worse = performance.measure_performance(days(7, 500, 2, tell=0.3), SCORE, 0.05)
    better = performance.measure_performance(days(7, 500, 2, tell=1.5), SCORE, 0.05)
    lost = {one.measure: one for one in performance.find_losses(worse, then, days=7)}
    assert lost["auc"].effect > 0.05 and lost["auc"].p_value < 0.01  # type: ignore[operator]
    assert lost["log_loss"].effect > 0.01 and lost["log_loss"].p_value < 0.01  # type: ignore[operator]
    gained = {one.measure: one for one in performance.find_losses(better, then, days=7)}
    assert gained["auc"].effect == 0 and gained["auc"].p_value > 0.5  # type: ignore[operator]
    (same,) = performance.find_losses(performance.estimate_performance(days(7, 500, 3).sum(axis=-1), SCORE, 0.05), then)
    assert same.measure == "estimated_auc" and same.p_value > 0.01  # type: ignore[operator]


def test_no_loss_without_error_is_no_loss() -> None:
    perfect = performance.measure_performance(np.array([[10.0, 0], [0, 10]]), np.array([0.0, 1.0]), 0.05)
    assert all((one.effect, one.p_value) == (0, 1) for one in performance.find_losses(perfect, perfect))
