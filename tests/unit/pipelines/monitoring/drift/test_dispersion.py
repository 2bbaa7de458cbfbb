"""Whether p-values keep their level where the rows of a day go together, over thousands of simulated pairs."""

import numpy as np
import pytest
from scipy import special, stats

from pipelines.monitoring.drift import measures
from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.dispersion import Null, Sample, estimate_null

DAYS = np.arange(35) % 7
WEEK = np.arange(7)
PAIRS = 4_000
EDGES = special.ndtri(np.arange(1, 8) / 8)


def pairs(
    day: float, shift: float = 0.0, weekly: float = 0.15, rows: int = 500, memory: float = 0.0
) -> tuple[Array, Array]:
    """Days of a reference and of a week after it; each day's rows share a shift of this standard deviation."""
    random = np.random.default_rng(11)
    days = len(DAYS) + len(WEEK)
    daily = random.normal(size=(PAIRS, days))
    for place in range(1, days):
        daily[:, place] = memory * daily[:, place - 1] + np.sqrt(1 - memory**2) * daily[:, place]
    moved = day * daily + weekly * random.normal(size=(PAIRS, 7))[:, np.arange(days) % 7]
    moved[:, len(DAYS) :] += shift
    below = special.ndtr(EDGES - moved[..., np.newaxis])
    many = np.where(np.arange(days) < len(DAYS), 500, rows)
    counts = random.multinomial(many, np.diff(below, axis=-1, prepend=0.0, append=1.0)).astype(float)
    return counts[:, : len(DAYS)], counts[:, len(DAYS) :]


def p_values(then: Array, now: Array) -> Array:
    statistic = measures.pearson(then.sum(axis=1), now.sum(axis=1))
    return estimate_null(Sample.from_counts(then, DAYS), Sample.from_counts(now, WEEK)).quadratic_p_value(statistic)


def plain(then: Array, now: Array) -> Array:
    return np.asarray(stats.chi2.sf(measures.pearson(then.sum(axis=1), now.sum(axis=1)), 7))


def refused(found: Array, alpha: float) -> int:
    return int((found <= alpha).sum())


@pytest.mark.parametrize("day", [0.0, 0.1, 0.3])
def test_the_level_is_kept_whatever_the_days_do(day: float) -> None:
    found = p_values(*pairs(day))
    for alpha in (0.05, 0.01, 0.001):
        assert stats.binomtest(refused(found, alpha), PAIRS, alpha, alternative="greater").pvalue > 0.01


@pytest.mark.parametrize("rows", [25, 10_000])
def test_the_level_is_kept_where_the_windows_days_are_of_other_sizes(rows: int) -> None:
    found = p_values(*pairs(0.1, rows=rows))
    assert np.isfinite(found).all()
    assert stats.binomtest(refused(found, 0.01), PAIRS, 0.01, alternative="greater").pvalue > 0.01


def test_weather_that_lasts_costs_little_of_the_level() -> None:
    # Not nothing: five weeks cannot tell how long weather lasts. The correlation is that of flights' delays.
    then, now = pairs(0.2, memory=0.25)
    found = p_values(then, now)
    assert refused(found, 0.05) < PAIRS * 0.075 and refused(found, 0.001) < PAIRS * 0.004
    # Negative control: the same days in an order that hides it.
    order = np.argsort(DAYS, kind="stable")
    statistic = measures.pearson(then.sum(axis=1), now.sum(axis=1))
    hidden = estimate_null(
        Sample.from_counts(then[:, order], DAYS[order]), Sample.from_counts(now, WEEK)
    ).quadratic_p_value(statistic)
    assert refused(hidden, 0.05) > PAIRS * 0.075


def test_the_plain_chi_square_sees_drift_everywhere() -> None:
    # Negative control of the one above: the same pairs, rows taken as independent.
    assert refused(plain(*pairs(0.1)), 0.05) > PAIRS * 0.2
    assert refused(plain(*pairs(0.3)), 0.05) > PAIRS * 0.7
    assert refused(plain(*pairs(0.0)), 0.05) / PAIRS == pytest.approx(0.05, abs=0.012)


def test_a_shift_of_a_few_days_deviations_is_found() -> None:
    assert refused(p_values(*pairs(0.1, shift=0.3)), 0.001) > PAIRS * 0.9
    # Negative control of the power: a shift well within what days do is not.
    assert refused(p_values(*pairs(0.1, shift=0.02)), 0.001) < PAIRS * 0.02


def test_weekdays_told_apart_are_no_spread() -> None:
    then, now = pairs(0.0, shift=0.1, weekly=0.4)
    statistic = measures.pearson(then.sum(axis=1), now.sum(axis=1))
    anyhow = estimate_null(
        Sample.from_counts(then, np.zeros(35)), Sample.from_counts(now, np.zeros(7))
    ).quadratic_p_value(statistic)
    assert refused(p_values(then, now), 0.001) > 2 * refused(anyhow, 0.001)


def test_without_days_it_is_the_plain_chi_square() -> None:
    then, now = (one.sum(axis=1, keepdims=True) for one in pairs(0.1))
    found = estimate_null(Sample.from_counts(then, DAYS[:1]), Sample.from_counts(now, WEEK[:1]))
    statistic = measures.pearson(then[:, 0], now[:, 0])
    np.testing.assert_allclose(found.quadratic_p_value(statistic), stats.chi2.sf(statistic, 7), atol=1e-12)


def test_kolmogorov_smirnovs_level_is_kept_too() -> None:
    then, now = (one[:1_500] for one in pairs(0.2))
    whole = estimate_null(Sample.from_counts(then, DAYS), Sample.from_counts(now, WEEK))
    distances = measures.kolmogorov_smirnov(then.sum(axis=1), now.sum(axis=1))
    rows = measures.scale(then.sum(axis=1), now.sum(axis=1))
    each = (Null(*one, whole.freedom) for one in zip(whole.effects, whole.share, strict=True))
    found = np.array(
        [one.kolmogorov_p_value(*pair) for one, pair in zip(each, zip(distances, rows, strict=True), strict=True)]
    )
    assert stats.binomtest(refused(found, 0.05), 1_500, 0.05, alternative="greater").pvalue > 0.01
    # Negative control: without the days.
    assert (stats.kstwo.sf(distances, np.round(rows)) <= 0.05).mean() > 0.3
