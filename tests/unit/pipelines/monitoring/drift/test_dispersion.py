"""Test by simulation that p-values keep their level where the rows of a day are correlated."""

import numpy as np
import pytest
from scipy import special, stats

from pipelines.monitoring.drift import distances
from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.dispersion import NullDistribution, Sample, estimate_null_distribution

DAYS = np.arange(35) % 7
WEEK = np.arange(7)
PAIRS = 4_000
EDGES = special.ndtri(np.arange(1, 8) / 8)


def simulate_pairs(
    day_deviation: float, shift: float = 0.0, weekly: float = 0.15, rows: int = 500, memory: float = 0.0
) -> tuple[Array, Array]:
    """Simulate days of a reference and of the week after it; the rows of a day share a random shift.

    `day_deviation` is the standard deviation of that shift, `weekly` that of the weekdays, `memory` the correlation
    from day to day.
    """
    random = np.random.default_rng(11)
    days = len(DAYS) + len(WEEK)
    daily = random.normal(size=(PAIRS, days))
    for day in range(1, days):
        daily[:, day] = memory * daily[:, day - 1] + np.sqrt(1 - memory**2) * daily[:, day]
    means = day_deviation * daily + weekly * random.normal(size=(PAIRS, 7))[:, np.arange(days) % 7]
    means[:, len(DAYS) :] += shift
    below = special.ndtr(EDGES - means[..., np.newaxis])
    rows_of_day = np.where(np.arange(days) < len(DAYS), 500, rows)
    counts = random.multinomial(rows_of_day, np.diff(below, axis=-1, prepend=0.0, append=1.0)).astype(float)
    return counts[:, : len(DAYS)], counts[:, len(DAYS) :]


def compute_p_values(reference: Array, window: Array) -> Array:
    """Compute p-values that are corrected for within-day correlation."""
    statistic = distances.compute_chi_square(reference.sum(axis=1), window.sum(axis=1))
    return estimate_null_distribution(
        Sample.from_counts(reference, DAYS), Sample.from_counts(window, WEEK)
    ).compute_chi_square_p_value(statistic)


def compute_plain_p_values(reference: Array, window: Array) -> Array:
    """Compute p-values as if all rows were independent."""
    return np.asarray(stats.chi2.sf(distances.compute_chi_square(reference.sum(axis=1), window.sum(axis=1)), 7))


def count_significant(p_values: Array, alpha: float) -> int:
    return int((p_values <= alpha).sum())


@pytest.mark.parametrize("deviation", [0.0, 0.1, 0.3])
def test_the_level_holds_for_any_correlation_within_days(deviation: float) -> None:
    p_values = compute_p_values(*simulate_pairs(deviation))
    for alpha in (0.05, 0.01, 0.001):
        assert stats.binomtest(count_significant(p_values, alpha), PAIRS, alpha, alternative="greater").pvalue > 0.01


@pytest.mark.parametrize("rows", [25, 10_000])
def test_the_level_holds_where_days_of_the_window_have_another_size(rows: int) -> None:
    p_values = compute_p_values(*simulate_pairs(0.1, rows=rows))
    assert np.isfinite(p_values).all()
    assert stats.binomtest(count_significant(p_values, 0.01), PAIRS, 0.01, alternative="greater").pvalue > 0.01


def test_correlation_between_days_raises_false_alarms_only_little() -> None:
    # False alarms are a little more frequent: five weeks are too few to estimate the correlation of days.
    # The correlation is that of flights' delays.
    reference, window = simulate_pairs(0.2, memory=0.25)
    p_values = compute_p_values(reference, window)
    assert count_significant(p_values, 0.05) < PAIRS * 0.075 and count_significant(p_values, 0.001) < PAIRS * 0.004
    # Negative control: the same days, in an order that hides the correlation.
    order = np.argsort(DAYS, kind="stable")
    statistic = distances.compute_chi_square(reference.sum(axis=1), window.sum(axis=1))
    hidden_p_values = estimate_null_distribution(
        Sample.from_counts(reference[:, order], DAYS[order]), Sample.from_counts(window, WEEK)
    ).compute_chi_square_p_value(statistic)
    assert count_significant(hidden_p_values, 0.05) > PAIRS * 0.075


def test_the_plain_chi_square_finds_drift_where_there_is_none() -> None:
    # Negative control of the test above: the same pairs, with rows taken as independent.
    assert count_significant(compute_plain_p_values(*simulate_pairs(0.1)), 0.05) > PAIRS * 0.2
    assert count_significant(compute_plain_p_values(*simulate_pairs(0.3)), 0.05) > PAIRS * 0.7
    assert count_significant(compute_plain_p_values(*simulate_pairs(0.0)), 0.05) / PAIRS == pytest.approx(
        0.05, abs=0.012
    )


def test_a_shift_of_three_daily_deviations_is_found() -> None:
    assert count_significant(compute_p_values(*simulate_pairs(0.1, shift=0.3)), 0.001) > PAIRS * 0.9
    # Negative control of the power: a shift that is small beside the differences between days is not found.
    assert count_significant(compute_p_values(*simulate_pairs(0.1, shift=0.02)), 0.001) < PAIRS * 0.02


def test_differences_between_weekdays_do_not_count_as_variance() -> None:
    reference, window = simulate_pairs(0.0, shift=0.1, weekly=0.4)
    statistic = distances.compute_chi_square(reference.sum(axis=1), window.sum(axis=1))
    p_values_without_weekdays = estimate_null_distribution(
        Sample.from_counts(reference, np.zeros(35)), Sample.from_counts(window, np.zeros(7))
    ).compute_chi_square_p_value(statistic)
    assert count_significant(compute_p_values(reference, window), 0.001) > 2 * count_significant(
        p_values_without_weekdays, 0.001
    )


def test_without_days_the_p_value_is_that_of_the_plain_chi_square() -> None:
    reference, window = (counts.sum(axis=1, keepdims=True) for counts in simulate_pairs(0.1))
    distribution = estimate_null_distribution(
        Sample.from_counts(reference, DAYS[:1]), Sample.from_counts(window, WEEK[:1])
    )
    statistic = distances.compute_chi_square(reference[:, 0], window[:, 0])
    np.testing.assert_allclose(
        distribution.compute_chi_square_p_value(statistic), stats.chi2.sf(statistic, 7), atol=1e-12
    )


@pytest.mark.slow
def test_the_level_holds_for_kolmogorov_smirnov() -> None:
    reference, window = (counts[:1_500] for counts in simulate_pairs(0.2))
    distributions = estimate_null_distribution(Sample.from_counts(reference, DAYS), Sample.from_counts(window, WEEK))
    ks_distances = distances.compute_ks_distance(reference.sum(axis=1), window.sum(axis=1))
    rows = distances.compute_sample_factor(reference.sum(axis=1), window.sum(axis=1))
    single_distributions = (
        NullDistribution(*arrays, distributions.degrees_of_freedom)
        for arrays in zip(distributions.design_effects, distributions.share, strict=True)
    )
    p_values = np.array(
        [
            distribution.compute_ks_p_value(*pair)
            for distribution, pair in zip(single_distributions, zip(ks_distances, rows, strict=True), strict=True)
        ]
    )
    assert stats.binomtest(count_significant(p_values, 0.05), 1_500, 0.05, alternative="greater").pvalue > 0.01
    # Negative control: without the correction for days.
    assert (stats.kstwo.sf(ks_distances, np.round(rows)) <= 0.05).mean() > 0.3
