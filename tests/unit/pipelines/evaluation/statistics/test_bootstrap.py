import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics import bootstrap, delong, resampling
from pipelines.evaluation.statistics.weighted import METRICS, WeightedMetric, auc

Array = np.ndarray[Any, Any]


def holdout(rows: int, seed: int = 7, rate: float = 0.3) -> tuple[Array, Array, Array]:
    """Labels, a candidate's and a champion's probabilities: related, and the candidate a little better."""
    random = np.random.default_rng(seed)
    label = (random.random(rows) < rate).astype(int)
    shared = math.log(rate / (1 - rate)) + random.normal(label, 1)
    one, other = (1 / (1 + np.exp(-shared - random.normal(0, noise, rows))) for noise in (0.3, 0.5))
    return label, one, other


LABEL, CANDIDATE, CHAMPION = holdout(700)


def by_ranks(ones: Array, zeros: Array) -> Array:
    """The AUC of each draw, by scipy's ranks."""
    ranks = stats.rankdata(np.concatenate([ones, zeros], axis=-1), axis=-1)[..., : ones.shape[-1]]
    n = ones.shape[-1]
    return np.asarray((ranks.sum(axis=-1) - n * (n + 1) / 2) / (n * zeros.shape[-1]))


def by_logs(ones: Array, zeros: Array) -> Array:
    n = ones.shape[-1] + zeros.shape[-1]
    return np.asarray(-(np.log(ones).sum(axis=-1) + np.log1p(-zeros).sum(axis=-1)) / n)


@pytest.mark.parametrize(("metric", "of"), [("auc", by_ranks), ("log_loss", by_logs)])
@pytest.mark.parametrize("digits", [1, 12], ids=["ties", "distinct"])
def test_the_paired_interval_equals_scipy_with_the_same_seed(metric: str, of: Any, digits: int) -> None:
    one, other = (np.clip(np.round(score, digits), 0.05, 0.95) for score in (CANDIDATE, CHAMPION))
    ones, zeros = np.flatnonzero(LABEL), np.flatnonzero(LABEL == 0)

    def difference(drawn: Array, drawn_zeros: Array, axis: int) -> Array:
        return np.asarray(
            of(one[ones[drawn]], one[zeros[drawn_zeros]]) - of(other[ones[drawn]], other[zeros[drawn_zeros]])
        )

    theirs = stats.bootstrap(
        (np.arange(len(ones)), np.arange(len(zeros))),
        difference,
        n_resamples=2_000,
        batch=resampling.batch_size(len(LABEL)),
        confidence_level=0.9,
        method="percentile",
        rng=np.random.default_rng(11),
    )
    assert resampling.batch_size(len(LABEL)) < 2_000
    ours = bootstrap.estimate_difference(LABEL, one, other, metric, alpha=0.05, seed=11, draws=2_000)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), abs=1e-8)
    assert ours.se == pytest.approx(theirs.standard_error, rel=1e-8)
    another = bootstrap.estimate_difference(LABEL, one, other, metric, alpha=0.05, seed=12, draws=2_000)
    assert another.low != pytest.approx(ours.low, abs=1e-8)


def test_the_interval_of_one_score_equals_scipy() -> None:
    samples = (CANDIDATE[LABEL == 1], CANDIDATE[LABEL == 0])
    theirs = stats.bootstrap(
        samples,
        lambda ones, zeros, axis: by_ranks(ones, zeros),
        n_resamples=1_000,
        batch=resampling.batch_size(len(LABEL)),
        confidence_level=0.98,
        method="percentile",
        rng=3,
    )
    ours = bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.01, seed=3, draws=1_000)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), abs=1e-8)
    assert ours.value == pytest.approx(delong.estimate_auc(LABEL, CANDIDATE, 0.01).value, abs=1e-12)
    assert ours.rows == 700


def normal_se(label: Array, of_row: Array) -> float:
    """Of a mean over rows, the number of each label given."""
    return math.sqrt(sum(np.var(of_row[label == one], ddof=1) * (label == one).sum() for one in (0, 1))) / len(label)


@pytest.mark.parametrize(("metric", "models"), [("auc", 1), ("auc", 2), ("log_loss", 2), ("brier", 1)])
def test_the_bag_of_little_bootstraps_agrees_with_the_analytic_interval(metric: str, models: int) -> None:
    label, *scores = holdout(200_000)
    scores = scores[:models]
    value, se = known(metric, label, scores)
    told = (bootstrap.estimate_metric if models == 1 else bootstrap.estimate_difference)(
        label, *scores, metric, alpha=0.05, seed=1
    )
    half = stats.norm.isf(0.05) * se
    assert told.value == pytest.approx(value, abs=1e-12)
    assert told.se == pytest.approx(se, rel=0.04)
    assert (told.low, told.high) == pytest.approx((value - half, value + half), abs=0.04 * 2 * half)


def known(metric: str, label: Array, scores: list[Array]) -> tuple[float, float]:
    """The analytic value and standard error of a metric, or of the first score's less the second's."""
    if metric == "auc":
        told = (delong.estimate_auc if len(scores) == 1 else delong.estimate_auc_difference)(label, *scores, alpha=0.05)
        return told.value, told.se
    loss = {
        "log_loss": lambda score: -np.log(np.where(label, score, 1 - score)),
        "brier": lambda score: (score - label) ** 2,
    }
    of_row = loss[metric](scores[0]) - (loss[metric](scores[1]) if len(scores) == 2 else 0)
    return of_row.mean(), normal_se(label, of_row)


@pytest.mark.parametrize("metric", ["auc", "pr_auc", "f1"])
def test_the_bag_agrees_with_the_full_bootstrap(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = holdout(8_000)
    whole = bootstrap.estimate_difference(*rows, metric, alpha=0.05, seed=2, draws=1_000)
    monkeypatch.setattr(bootstrap, "MAX_FULL_ROWS", 0)
    bag = bootstrap.estimate_difference(*rows, metric, alpha=0.05, seed=1, draws=3_000)
    assert bag.value == whole.value
    width = whole.high - whole.low
    assert (bag.low, bag.high) == pytest.approx((whole.low, whole.high), abs=0.08 * width)


def test_a_rare_label_keeps_its_weight_in_the_bag() -> None:
    label, one, _ = holdout(200_000, rate=0.004)
    assert bootstrap.estimate_metric(label, one, "auc", alpha=0.05, seed=1).se == pytest.approx(
        delong.estimate_auc(label, one, 0.05).se, rel=0.05
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
        # Two cells, each against the binomial, and against each other.
        known = stats.binom.pmf(np.arange(total + 1), total, share)
        seen = np.bincount(counts[:, -1], minlength=total + 1)
        often = known * size > 5
        assert stats.chisquare(seen[often], known[often] * seen[often].sum() / known[often].sum()).pvalue > 1e-3
        assert np.cov(counts[:, 0], counts[:, 1])[0, 1] == pytest.approx(
            -total * share**2, abs=5 * variance / math.sqrt(size)
        )


def test_both_branches_of_the_multinomial_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(np.random.Generator):
        taken = 0

        def multinomial(self, *given: Any, **more: Any) -> Any:
            Watched.taken += 1
            return super().multinomial(*given, **more)

    counts = resampling.draw_multinomial(10_000, 50, 20_000, Watched(np.random.PCG64(1)))
    assert 0 < Watched.taken < 200
    assert (counts.sum(axis=1) == 10_000).all()


def days(number: int, of: int, same: float) -> tuple[Array, Array, Array, Array]:
    """Labels, two scores and the day of each row; `same` is how much the rows of a day share."""
    random = np.random.default_rng(9)
    day = np.repeat(np.arange(number), of)
    label = (random.random(number * of) < 0.4).astype(int)
    one = np.clip(0.4 + random.normal(0, same, number)[day] + random.normal(0, 0.05, number * of), 0.01, 0.99)
    return label, one, np.full(number * of, 0.4), day


def test_days_are_drawn_whole() -> None:
    label, one, other, day = days(60, 50, 0.1)
    told = bootstrap.estimate_difference(label, one, other, "brier", alpha=0.05, seed=1, groups=day)
    of_day = ((one - label) ** 2 - (other - label) ** 2).reshape(60, 50).mean(axis=1)
    assert told.se == pytest.approx(of_day.std() / math.sqrt(60), rel=0.04)
    assert told.se > 1.4 * bootstrap.estimate_difference(label, one, other, "brier", alpha=0.05, seed=1).se
    named = np.array([f"2013-02-{one:02}" for one in day])
    assert bootstrap.estimate_difference(label, one, other, "brier", alpha=0.05, seed=1, groups=named) == told


@pytest.mark.parametrize("metric", METRICS)
def test_sums_by_group_equal_those_by_row(metric: str) -> None:
    day = np.arange(700) % 23

    def through_rows(label: Array, score: Array) -> WeightedMetric:
        made = METRICS[metric].make(label, score)
        # Not one of those that know groups: it is asked of rows.
        return made.__call__

    given = {"alpha": 0.05, "seed": 4, "draws": 300, "groups": day}
    scores = [np.round(score, 2) for score in (CANDIDATE, CHAMPION)]
    short = bootstrap.estimate_difference(LABEL, *scores, metric, **given)
    long = bootstrap.estimate_difference(LABEL, *scores, through_rows, **given)
    for end in ("value", "low", "high", "se"):
        assert getattr(short, end) == pytest.approx(getattr(long, end), abs=1e-12)


def test_more_groups_than_the_table_allows() -> None:
    label, one, other = holdout(3_000)
    told = bootstrap.estimate_difference(
        label, one, other, "auc", alpha=0.05, seed=4, groups=np.arange(3_000) // 2, draws=1_000
    )
    assert told.se == pytest.approx(delong.estimate_auc_difference(label, one, other, 0.05).se, rel=0.1)


def test_independent_rows_in_groups_do_not_widen_the_interval() -> None:
    label, one, other, day = days(200, 15, 0.0)
    for metric in ("brier", "auc"):
        grouped = bootstrap.estimate_difference(label, one, other, metric, alpha=0.05, seed=1, groups=day, draws=2_000)
        alone = bootstrap.estimate_difference(label, one, other, metric, alpha=0.05, seed=1, draws=2_000)
        assert grouped.se == pytest.approx(alone.se, rel=0.15)


def test_accepts_a_metric_of_the_caller() -> None:
    def mean_of_ones(label: Array, score: Array) -> WeightedMetric:
        return lambda weights: weights @ (score * label) / (weights @ label)

    told = bootstrap.estimate_metric(LABEL, CANDIDATE, mean_of_ones, alpha=0.05, seed=1)
    ones = CANDIDATE[LABEL == 1]
    assert told.value == pytest.approx(ones.mean())
    assert told.se == pytest.approx(ones.std() / math.sqrt(len(ones)), rel=0.04)


@pytest.mark.parametrize("metric", METRICS)
def test_equal_models_differ_by_nothing(metric: str) -> None:
    told = bootstrap.estimate_difference(LABEL, CANDIDATE, CANDIDATE.copy(), metric, alpha=0.05, seed=1, draws=50)
    assert (told.value, told.low, told.high, told.se) == (0, 0, 0, 0)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_an_interval_around_its_value(metric: str) -> None:
    for rows in (700, 21_000):
        label, one, _ = holdout(rows)
        told = bootstrap.estimate_metric(label, one, metric, alpha=0.025, seed=1, draws=200)
        assert told == bootstrap.estimate_metric(label, one, metric, alpha=0.025, seed=1, draws=200)
        assert told.low < told.high and told.se > 0
        # A calibration error is biased upwards in draws: its interval need not hold the value.
        assert metric == "ece" or told.low < told.value < told.high


def test_the_bag_makes_as_many_draws_as_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counted(label: Array, score: Array) -> WeightedMetric:
        of = auc(label, score)
        return lambda weights: (seen.append(len(weights)), of(weights))[1]

    label, one, _ = holdout(21_000)
    bootstrap.estimate_metric(label, one, counted, alpha=0.05, seed=1, draws=107)
    # One for the value, and one for each subset's own.
    assert sum(seen) == 107 + 1 + bootstrap.SUBSETS


def test_refuses_invalid_rows() -> None:
    for label, score, told in (
        (np.ones(5), np.full(5, 0.5), "label 1"),
        (np.zeros(0), np.zeros(0), "no rows"),
        (LABEL, np.full(700, math.nan), "700 of 700"),
        (LABEL, CANDIDATE[1:], "700 labels"),
    ):
        with pytest.raises(DataError, match=told):
            bootstrap.estimate_metric(label, score, "auc", alpha=0.05, seed=1, draws=20)
        with pytest.raises(DataError, match=told):
            bootstrap.estimate_difference(label, score, score, "brier", alpha=0.05, seed=1, draws=20)


def test_refuses_invalid_groups() -> None:
    for groups, told in (
        (np.zeros(700), "one group"),
        (np.arange(699), "groups of shape"),
        (LABEL, "not a number in [0-9]+ of 50 draws"),
    ):
        with pytest.raises(DataError, match=told):
            bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.05, seed=1, draws=50, groups=groups)


def test_refuses_invalid_arguments() -> None:
    with pytest.raises(SpecError, match="no metric"):
        bootstrap.estimate_metric(LABEL, CANDIDATE, "gini", alpha=0.05, seed=1)
    with pytest.raises(SpecError, match="alpha"):
        bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.5, seed=1, draws=20)
    with pytest.raises(SpecError, match="19 draws"):
        bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.05, seed=1, draws=19)


def peak(rows: int, metric: str, draws: int) -> int:
    """Most bytes beyond the input, of a paired interval; draws enough that batches are whole."""
    given = holdout(rows)
    tracemalloc.start()
    bootstrap.estimate_difference(*given, metric, alpha=0.05, seed=1, draws=draws)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("metric", ["auc", "log_loss"])
def test_memory_does_not_grow_with_the_rows(metric: str) -> None:
    small, large = peak(100_000, metric, 5_000), peak(1_000_000, metric, 1_400)
    # The whole input is sorted once: that is all that grows.
    assert large < 2 * small
    assert large < 120e6


@pytest.mark.parametrize("metric", ["auc", "log_loss"])
def test_groups_of_a_million_rows_need_no_more_memory(metric: str) -> None:
    given = holdout(1_000_000)
    tracemalloc.start()
    bootstrap.estimate_difference(*given, metric, alpha=0.05, seed=1, groups=np.arange(1_000_000) // 36_000)
    assert tracemalloc.get_traced_memory()[1] < 120e6
    tracemalloc.stop()
