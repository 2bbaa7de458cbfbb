"""Test performance from counts against scikit-learn and DeLong, and its losses by simulation."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from benchmarks.decisions.losses import simulate_loss_p_values
from pipelines.errors import DataError
from pipelines.evaluation.statistics import delong
from pipelines.monitoring.drift import performance
from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.finding import Finding, Measure

SCORE = (np.arange(20) + 0.5) / 20


def simulate_days(number: int, rows: int, seed: int = 1, day_deviation: float = 0.0, signal: float = 1.0) -> Array:
    """Simulate counts of days, shape (days, bins, 2), of calibrated scores. The rates of days vary on the logit."""
    random = np.random.default_rng(seed)
    bins = random.binomial(19, random.beta(1.2, 3, (number, rows)))
    logit = np.log(SCORE / (1 - SCORE))[bins] * signal + day_deviation * random.normal(size=(number, 1))
    label = random.random((number, rows)) < 1 / (1 + np.exp(-logit))
    counts = np.zeros((number, 20, 2))
    np.add.at(counts, (np.arange(number)[:, np.newaxis], bins, label.astype(int)), 1)
    return counts


def expand_rows(counts: Array) -> tuple[Array, Array]:
    """Return the labels and the scores of the counts, one of each for every row."""
    bins, labels = np.nonzero(counts)
    repeats = counts[bins, labels].astype(int)
    return np.repeat(labels, repeats), np.repeat(SCORE[bins], repeats)


def test_metrics_equal_those_of_scikit_learn_on_binned_scores() -> None:
    counts = simulate_days(1, 3_000)[0]
    label, score = expand_rows(counts)
    estimates = performance.measure_performance(counts, SCORE, 0.05)
    assert estimates["auc"].value == pytest.approx(roc_auc_score(label, score), abs=1e-12)
    assert estimates["brier"].value == pytest.approx(brier_score_loss(label, score), abs=1e-12)
    assert estimates["log_loss"].value == pytest.approx(log_loss(label, score), abs=1e-12)
    gaps = [abs((label - score)[score == bin_score].sum()) for bin_score in SCORE]
    assert estimates["ece"].value == pytest.approx(sum(gaps) / len(label), abs=1e-12)
    assert estimates["auc"].rows == 3_000


def test_a_certain_and_wrong_score_has_a_finite_loss() -> None:
    counts = np.array([[5.0, 1], [1, 5]])
    label, score = np.array([0] * 5 + [1] + [0] + [1] * 5), np.array([0.0] * 6 + [1.0] * 6)
    estimate = performance.measure_performance(counts, np.array([0.0, 1.0]), 0.05)["log_loss"]
    assert estimate.value == pytest.approx(log_loss(label, score), abs=1e-9)


def test_the_interval_without_days_is_near_that_of_delong() -> None:
    counts = simulate_days(1, 3_000)[0]
    estimate, expected = (
        performance.measure_performance(counts, SCORE, 0.05)["auc"],
        delong.estimate_auc(*expand_rows(counts), 0.05),
    )
    assert estimate.se == pytest.approx(expected.se, rel=0.01)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("days", [1_000, pytest.param(4_000, marks=pytest.mark.soak)])
def test_the_interval_over_days_covers_the_truth_and_that_over_rows_does_not(days: int) -> None:
    truth = {
        name: estimate.value
        for name, estimate in performance.measure_performance(simulate_days(days, 300, 99, 0.8), SCORE, 0.05).items()
    }

    trials = 100

    def compute_coverage(by_day: bool) -> dict[str, float]:
        hits = dict.fromkeys(truth, 0)
        for seed in range(trials):
            counts = simulate_days(20, 300, seed, 0.8)
            for name, estimate in performance.measure_performance(
                counts if by_day else counts.sum(axis=0), SCORE, 0.05
            ).items():
                hits[name] += estimate.low <= truth[name] <= estimate.high
        return {name: number / trials for name, number in hits.items()}

    # The level is 90 %; three standard errors of the simulation are subtracted.
    coverage = compute_coverage(by_day=True)
    assert coverage["brier"] > 0.81 and coverage["auc"] > 0.81
    # Negative control: the interval over rows.
    assert compute_coverage(by_day=False)["brier"] < 0.7


def test_without_both_labels_nothing_is_measured() -> None:
    counts = simulate_days(3, 100)
    counts[..., 1] = 0
    assert performance.measure_performance(counts, SCORE, 0.05) == {}
    assert performance.measure_performance(np.zeros((20, 2)), SCORE, 0.05) == {}
    assert performance.estimate_performance(np.zeros(20), SCORE, 0.05) == {}
    with pytest.raises(DataError, match="do not fit 20 bins"):
        performance.measure_performance(np.ones((3, 2)), SCORE, 0.05)


def test_the_auc_with_one_row_of_a_label_has_a_large_error() -> None:
    counts = np.zeros((2, 20, 2))
    counts[0, 5, 0], counts[1, 7, 1] = 50, 1
    estimate = performance.measure_performance(counts, SCORE, 0.05)["auc"]
    assert estimate.value == 1 and estimate.se == 0.5 and all(np.isfinite([estimate.low, estimate.high]))


def test_the_standard_error_of_the_estimate_is_that_of_the_later_auc() -> None:
    errors, standard_errors = [], []
    for seed in range(300):
        counts = simulate_days(1, 500, seed)[0]
        estimate = performance.estimate_performance(counts.sum(axis=1), SCORE, 0.05)["estimated_auc"]
        errors.append(estimate.value - performance.measure_performance(counts, SCORE, 0.05)["auc"].value)
        standard_errors.append(estimate.se)
    # The difference to the labels' AUC varies a little less: both are computed from the same scores.
    assert 0.8 < np.std(errors) / np.mean(standard_errors) <= 1.05
    # With calibrated scores there is no bias; with others there is (negative control).
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(300)
    flat = simulate_days(1, 100_000, signal=0.4)[0]
    estimates = performance.estimate_performance(flat.sum(axis=1), SCORE, 0.05)["estimated_auc"].value
    assert estimates > performance.measure_performance(flat, SCORE, 0.05)["auc"].value + 0.05


def test_calibration_corrects_scores_that_are_not_calibrated() -> None:
    holdout, later_days = simulate_days(1, 100_000, 1, signal=0.4)[0], simulate_days(1, 100_000, 2, signal=0.4)[0]
    chance = performance.calibrate_scores(holdout, SCORE)
    assert (np.diff(chance) >= 0).all() and ((chance >= 0) & (chance <= 1)).all()
    estimates = performance.estimate_performance(later_days.sum(axis=1), chance, 0.05)["estimated_auc"].value
    assert estimates == pytest.approx(performance.measure_performance(later_days, SCORE, 0.05)["auc"].value, abs=0.01)
    assert performance.calibrate_scores(np.zeros((20, 2)), SCORE) == pytest.approx(SCORE)


def measure_holdout(days: Array) -> dict[Measure, performance.Performance]:
    """Measure the holdout, and estimate it from its scores."""
    measured = performance.measure_performance(days, SCORE, 0.05)
    return measured | estimate_by(days, days)


def estimate_by(days: Array, holdout: Array) -> dict[Measure, performance.Performance]:
    """Estimate the performance of days from their scores, calibrated by the holdout."""
    probabilities = performance.calibrate_scores(holdout.sum(axis=0), SCORE)
    return performance.estimate_performance(days.sum(axis=-1), probabilities, 0.05)


def compare_metrics(days: Array, holdout: Array) -> dict[Measure, Finding]:
    """Compare days with the holdout by all metrics."""
    window = performance.measure_performance(days, SCORE, 0.05) | estimate_by(days, holdout)
    return {finding.measure: finding for finding in performance.compare_metrics(window, measure_holdout(holdout))}


def test_only_a_loss_against_the_holdout_is_significant() -> None:
    holdout = simulate_days(28, 500, 1)
    losses = compare_metrics(simulate_days(7, 500, 2, signal=0.3), holdout)
    assert losses["auc"].effect > 0.05 and losses["auc"].p_value < 0.01
    assert losses["log_loss"].effect > 0.01 and losses["log_loss"].p_value < 0.01
    gains = compare_metrics(simulate_days(7, 500, 2, signal=1.5), holdout)
    assert gains["auc"].effect == 0 and gains["auc"].p_value > 0.5
    assert compare_metrics(simulate_days(7, 500, 3), holdout)["estimated_auc"].p_value > 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("correlation", "window_days"), [pytest.param(0.0, 7, marks=pytest.mark.soak), (0.5, 14)])
def test_a_loss_is_as_rare_as_its_p_value_says_where_weather_lasts(correlation: float, window_days: int) -> None:
    """`benchmarks/results/losses.json` has all lengths, and more windows."""
    windows, limit = 250, {"ece": 0.0}
    p_values = simulate_loss_p_values(windows, window_days, correlation)
    assert set(p_values) == {"auc", "brier", "log_loss", "ece", "estimated_auc"}
    for name, values in p_values.items():
        significant = int((values <= 0.05).sum())
        # The level is a little higher where days are correlated: some 40 days are too few to estimate the correlation.
        assert stats.binomtest(significant, windows, 0.06, alternative="greater").pvalue > 0.003, (name, significant)
        # A test that never finds anything is no test. ECE is cautious: its error is not symmetric.
        least = limit.get(name, 0.04)
        assert stats.binomtest(significant, windows, max(least, 1e-9), alternative="less").pvalue > 0.003, name
        assert 0.4 < np.mean(values) < 0.6, name


def test_days_taken_as_independent_raise_false_losses() -> None:
    """Negative control: the same days in random order, which removes their correlation."""
    p_values = simulate_loss_p_values(150, 14, 0.7, shuffle=True)
    for name in ("auc", "brier", "log_loss", "estimated_auc"):
        assert (p_values[name] <= 0.05).mean() > 0.12, name


def test_the_estimated_auc_falls_where_scores_say_less() -> None:
    holdout = simulate_days(28, 500, 1)
    bins = np.clip(np.round((np.arange(20) - 4) * 0.4 + 4), 0, 19).astype(int)  # scores nearer to their mean
    narrow = np.zeros_like(holdout[:14])
    np.add.at(narrow, (slice(None), bins), simulate_days(14, 500, 2))
    loss = compare_metrics(narrow, holdout)["estimated_auc"]
    assert loss.effect > 0.05 and loss.p_value < 1e-6


def test_a_longer_window_has_no_smaller_ece_than_a_shorter_one() -> None:
    """Chance alone makes the ECE of 7 days twice that of 28: this is no loss."""
    holdout, window = simulate_days(28, 100, 1), simulate_days(7, 100, 2)
    measured = [performance.measure_performance(days, SCORE, 0.05)["ece"].value for days in (window, holdout)]
    assert measured[0] > 1.5 * measured[1]
    assert compare_metrics(window, holdout)["ece"].effect < 0.3 * (measured[0] - measured[1])


def test_equal_performance_without_error_is_no_loss() -> None:
    perfect = performance.measure_performance(np.array([[10.0, 0], [0, 10]]), np.array([0.0, 1.0]), 0.05)
    assert all((finding.effect, finding.p_value) == (0, 1) for finding in performance.compare_metrics(perfect, perfect))


@pytest.mark.parametrize("days", [(1, 28), (1, 1), (2, 2), (28, 3), (2, 28)])
def test_samples_of_any_number_of_days_are_compared(days: tuple[int, int]) -> None:
    findings = compare_metrics(simulate_days(days[0], 500, 2), simulate_days(days[1], 500, 1))
    assert all(0 <= finding.p_value <= 1 for finding in findings.values() if finding.p_value is not None)
    assert len(findings) == 5 and all(finding.p_value is not None for finding in findings.values())
