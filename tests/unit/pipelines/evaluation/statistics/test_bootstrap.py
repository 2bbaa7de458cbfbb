"""Test the bootstrap's intervals against scipy and against analytic intervals."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics import bootstrap, delong, resampling
from pipelines.evaluation.statistics.sums import WeightedMetric
from pipelines.evaluation.statistics.weighted import BINARY_METRICS, build_auc_metric

Array = np.ndarray[Any, Any]


def build_holdout(rows: int, seed: int = 7, rate: float = 0.3) -> tuple[Array, Array, Array]:
    """Simulate labels, and correlated scores of a candidate and of a champion that is slightly worse."""
    random = np.random.default_rng(seed)
    label = (random.random(rows) < rate).astype(int)
    shared = math.log(rate / (1 - rate)) + random.normal(label, 1)
    candidate, champion = (1 / (1 + np.exp(-shared - random.normal(0, noise, rows))) for noise in (0.3, 0.5))
    return label, candidate, champion


LABEL, CANDIDATE, CHAMPION = build_holdout(700)


def compute_auc_by_ranks(ones: Array, zeros: Array) -> Array:
    """Compute the AUC of each draw from scipy's ranks."""
    ranks = stats.rankdata(np.concatenate([ones, zeros], axis=-1), axis=-1)[..., : ones.shape[-1]]
    n = ones.shape[-1]
    return np.asarray((ranks.sum(axis=-1) - n * (n + 1) / 2) / (n * zeros.shape[-1]))


def compute_log_loss(ones: Array, zeros: Array) -> Array:
    n = ones.shape[-1] + zeros.shape[-1]
    return np.asarray(-(np.log(ones).sum(axis=-1) + np.log1p(-zeros).sum(axis=-1)) / n)


@pytest.mark.parametrize(("metric", "compute"), [("auc", compute_auc_by_ranks), ("log_loss", compute_log_loss)])
@pytest.mark.parametrize("digits", [1, 12], ids=["ties", "distinct"])
def test_the_paired_interval_equals_scipy_with_the_same_seed(metric: str, compute: Any, digits: int) -> None:
    candidate, champion = (np.clip(np.round(score, digits), 0.05, 0.95) for score in (CANDIDATE, CHAMPION))
    ones, zeros = np.flatnonzero(LABEL), np.flatnonzero(LABEL == 0)

    def compute_difference(drawn_ones: Array, drawn_zeros: Array, axis: int) -> Array:
        return np.asarray(
            compute(candidate[ones[drawn_ones]], candidate[zeros[drawn_zeros]])
            - compute(champion[ones[drawn_ones]], champion[zeros[drawn_zeros]])
        )

    expected = stats.bootstrap(
        (np.arange(len(ones)), np.arange(len(zeros))),
        compute_difference,
        n_resamples=2_000,
        batch=resampling.compute_batch_size(len(LABEL)),
        confidence_level=0.9,
        method="percentile",
        rng=np.random.default_rng(11),
    )
    assert resampling.compute_batch_size(len(LABEL)) < 2_000
    estimate = bootstrap.estimate_difference(LABEL, candidate, champion, metric, alpha=0.05, seed=11, draws=2_000)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(expected.confidence_interval), abs=1e-8)
    assert estimate.se == pytest.approx(expected.standard_error, rel=1e-8)
    another = bootstrap.estimate_difference(LABEL, candidate, champion, metric, alpha=0.05, seed=12, draws=2_000)
    assert another.low != pytest.approx(estimate.low, abs=1e-8)


def test_the_interval_of_one_score_equals_scipy() -> None:
    samples = (CANDIDATE[LABEL == 1], CANDIDATE[LABEL == 0])
    expected = stats.bootstrap(
        samples,
        lambda ones, zeros, axis: compute_auc_by_ranks(ones, zeros),
        n_resamples=1_000,
        batch=resampling.compute_batch_size(len(LABEL)),
        confidence_level=0.98,
        method="percentile",
        rng=3,
    )
    estimate = bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.01, seed=3, draws=1_000)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(expected.confidence_interval), abs=1e-8)
    assert estimate.value == pytest.approx(delong.estimate_auc(LABEL, CANDIDATE, 0.01).value, abs=1e-12)
    assert estimate.rows == 700


def compute_normal_se(label: Array, values: Array) -> float:
    """Compute the standard error of a mean over rows, with fixed numbers of rows of each label."""
    return math.sqrt(sum(np.var(values[label == value], ddof=1) * (label == value).sum() for value in (0, 1))) / len(
        label
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "models"),
    [
        ("auc", 2),
        # With one model, test_a_rare_label_keeps_its_weight_in_the_bag compares the standard error of the AUC.
        *(
            pytest.param(metric, models, marks=pytest.mark.soak)
            for metric, models in (("brier", 1), ("auc", 1), ("log_loss", 2))
        ),
    ],
)
def test_the_bag_of_little_bootstraps_agrees_with_the_analytic_interval(metric: str, models: int) -> None:
    label, *scores = build_holdout(200_000)
    scores = scores[:models]
    value, se = compute_analytic_estimate(metric, label, scores)
    if models == 1:
        estimate = bootstrap.estimate_metric(label, scores[0], metric, alpha=0.05, seed=1)
    else:
        estimate = bootstrap.estimate_difference(label, scores[0], scores[1], metric, alpha=0.05, seed=1)
    half = stats.norm.isf(0.05) * se
    assert estimate.value == pytest.approx(value, abs=1e-12)
    assert estimate.se == pytest.approx(se, rel=0.04)
    assert (estimate.low, estimate.high) == pytest.approx((value - half, value + half), abs=0.04 * 2 * half)


def compute_analytic_estimate(metric: str, label: Array, scores: list[Array]) -> tuple[float, float]:
    """Compute the value and the standard error of a metric, or of the difference of two scores, by formula."""
    if metric == "auc":
        if len(scores) == 1:
            estimate = delong.estimate_auc(label, scores[0], alpha=0.05)
        else:
            estimate = delong.estimate_auc_difference(label, scores[0], scores[1], alpha=0.05)
        return estimate.value, estimate.se
    loss = {
        "log_loss": lambda score: -np.log(np.where(label, score, 1 - score)),
        "brier": lambda score: (score - label) ** 2,
    }
    values = loss[metric](scores[0]) - (loss[metric](scores[1]) if len(scores) == 2 else 0)
    return values.mean(), compute_normal_se(label, values)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["f1", *(pytest.param(name, marks=pytest.mark.soak) for name in ("auc", "pr_auc"))])
def test_the_bag_agrees_with_the_full_bootstrap(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = build_holdout(8_000)
    full = bootstrap.estimate_difference(*rows, metric, alpha=0.05, seed=2, draws=1_000)
    monkeypatch.setattr(bootstrap, "MAX_FULL_ROWS", 0)
    bag = bootstrap.estimate_difference(*rows, metric, alpha=0.05, seed=1, draws=3_000)
    assert bag.value == full.value
    width = full.high - full.low
    assert (bag.low, bag.high) == pytest.approx((full.low, full.high), abs=0.08 * width)


@pytest.mark.slow
def test_a_rare_label_keeps_its_weight_in_the_bag() -> None:
    label, score, _ = build_holdout(200_000, rate=0.004)
    assert bootstrap.estimate_metric(label, score, "auc", alpha=0.05, seed=1).se == pytest.approx(
        delong.estimate_auc(label, score, 0.05).se, rel=0.05
    )


@pytest.mark.parametrize(("total", "cells"), [(1_000, 1_000), (90_000, 1_500), (5, 3), (0, 4), (7, 1)])
def test_the_counts_of_the_bag_are_multinomial(total: int, cells: int) -> None:
    size = 4_000
    counts = resampling.draw_multinomial(total, cells, size, np.random.default_rng(2))
    assert counts.shape == (size, cells)
    assert (counts.sum(axis=1) == total).all() and (counts >= 0).all()
    share = 1 / cells
    variance = total * share * (1 - share)
    assert np.abs(counts.mean(axis=0) - total * share).max() <= 5 * math.sqrt(variance / size)
    assert counts.var(axis=0).mean() == pytest.approx(variance, rel=0.03, abs=1e-12)
    if cells > 2 and total > 2:
        # A cell is compared with the binomial distribution, and two cells with their covariance.
        expected = stats.binom.pmf(np.arange(total + 1), total, share)
        observed = np.bincount(counts[:, -1], minlength=total + 1)
        is_frequent = expected * size > 5
        assert (
            stats.chisquare(
                observed[is_frequent], expected[is_frequent] * observed[is_frequent].sum() / expected[is_frequent].sum()
            ).pvalue
            > 1e-3
        )
        assert np.cov(counts[:, 0], counts[:, 1])[0, 1] == pytest.approx(
            -total * share**2, abs=5 * variance / math.sqrt(size)
        )


def test_both_branches_of_the_multinomial_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class CountingGenerator(np.random.Generator):
        calls = 0

        def multinomial(self, *arguments: Any, **options: Any) -> Any:
            CountingGenerator.calls += 1
            return super().multinomial(*arguments, **options)

    counts = resampling.draw_multinomial(10_000, 50, 20_000, CountingGenerator(np.random.PCG64(1)))
    assert 0 < CountingGenerator.calls < 200
    assert (counts.sum(axis=1) == 10_000).all()


def test_accepts_a_metric_of_the_caller() -> None:
    def make_mean_of_ones(label: Array, score: Array) -> WeightedMetric:
        return lambda weights: weights @ (score * label) / (weights @ label)

    estimate = bootstrap.estimate_metric(LABEL, CANDIDATE, make_mean_of_ones, alpha=0.05, seed=1)
    ones = CANDIDATE[LABEL == 1]
    assert estimate.value == pytest.approx(ones.mean())
    assert estimate.se == pytest.approx(ones.std() / math.sqrt(len(ones)), rel=0.04)


@pytest.mark.parametrize("metric", BINARY_METRICS)
def test_equal_models_have_no_difference(metric: str) -> None:
    estimate = bootstrap.estimate_difference(LABEL, CANDIDATE, CANDIDATE.copy(), metric, alpha=0.05, seed=1, draws=50)
    assert (estimate.value, estimate.low, estimate.high, estimate.se) == (0, 0, 0, 0)


@pytest.mark.parametrize("metric", BINARY_METRICS)
def test_every_metric_has_an_interval_around_its_value(metric: str) -> None:
    for rows in (700, 21_000):
        label, score, _ = build_holdout(rows)
        estimate = bootstrap.estimate_metric(label, score, metric, alpha=0.025, seed=1, draws=200)
        assert estimate == bootstrap.estimate_metric(label, score, metric, alpha=0.025, seed=1, draws=200)
        assert estimate.low < estimate.high and estimate.se > 0
        assert estimate.low < estimate.value < estimate.high


def test_the_bag_makes_as_many_draws_as_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = []

    def make_counting_auc(label: Array, score: Array) -> WeightedMetric:
        compute = build_auc_metric(label, score)
        return lambda weights: (draws.append(len(weights)), compute(weights))[1]

    label, score, _ = build_holdout(21_000)
    bootstrap.estimate_metric(label, score, make_counting_auc, alpha=0.05, seed=1, draws=107)
    # One evaluation is for the value, and one for the value of each subset.
    assert sum(draws) == 107 + 1 + bootstrap.SUBSETS


def test_refuses_invalid_rows() -> None:
    for label, score, message in (
        (np.ones(5), np.full(5, 0.5), "label 1"),
        (np.zeros(0), np.zeros(0), "no rows"),
        (LABEL, np.full(700, math.nan), "700 of 700"),
        (LABEL, CANDIDATE[1:], "700 labels"),
    ):
        with pytest.raises(DataError, match=message):
            bootstrap.estimate_metric(label, score, "auc", alpha=0.05, seed=1, draws=20)
        with pytest.raises(DataError, match=message):
            bootstrap.estimate_difference(label, score, score, "brier", alpha=0.05, seed=1, draws=20)


def test_refuses_invalid_groups() -> None:
    for groups, message in ((np.zeros(700), "one group"), (np.arange(699), "groups of shape")):
        with pytest.raises(DataError, match=message):
            bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.05, seed=1, draws=50, groups=groups)


def test_refuses_invalid_arguments() -> None:
    with pytest.raises(SpecError, match="no metric"):
        bootstrap.estimate_metric(LABEL, CANDIDATE, "gini", alpha=0.05, seed=1)
    with pytest.raises(SpecError, match="alpha"):
        bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.5, seed=1, draws=20)
    with pytest.raises(SpecError, match="19 draws"):
        bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.05, seed=1, draws=19)


def measure_peak_memory(rows: int, metric: str, draws: int) -> int:
    """Measure the peak memory of a paired interval in bytes, without the input. Use enough draws for whole batches."""
    arrays = build_holdout(rows)
    tracemalloc.start()
    bootstrap.estimate_difference(*arrays, metric, alpha=0.05, seed=1, draws=draws)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_a_million_rows_need_little_memory() -> None:
    assert measure_peak_memory(1_000_000, "auc", 1_400) < 120e6


@pytest.mark.soak
@pytest.mark.parametrize("metric", ["auc", "log_loss"])
def test_memory_does_not_grow_with_the_rows(metric: str) -> None:
    small, large = measure_peak_memory(100_000, metric, 5_000), measure_peak_memory(1_000_000, metric, 1_400)
    # Only the sorted copy of the input grows.
    assert large < 2 * small
    assert large < 120e6


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["log_loss", pytest.param("auc", marks=pytest.mark.soak)])
def test_groups_of_a_million_rows_need_no_more_memory(metric: str) -> None:
    arrays = build_holdout(1_000_000)
    tracemalloc.start()
    bootstrap.estimate_difference(*arrays, metric, alpha=0.05, seed=1, groups=np.arange(1_000_000) // 36_000)
    assert tracemalloc.get_traced_memory()[1] < 120e6
    tracemalloc.stop()
