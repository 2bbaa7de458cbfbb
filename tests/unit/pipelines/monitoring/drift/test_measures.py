"""The measures beside scipy's, and beside the formulas of Evidently 0.7 and NannyML 0.13 where they define the same."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import jensenshannon

from pipelines.errors import DataError
from pipelines.monitoring.drift import measures
from pipelines.monitoring.drift.columns import examine_column
from pipelines.monitoring.drift.counts import Array, Column, Counts
from pipelines.monitoring.drift.finding import Finding, Measure

THEN = np.array([40, 110, 205, 310, 190, 95, 50.0])
NOW = np.array([20, 60, 120, 230, 170, 90, 60.0])
EDGES = np.array([-2, -1, 0, 0.5, 1.5, 3.0])
POINTS = np.array([-2, -1.5, -0.5, 0.25, 1.0, 2.25, 3.0])


def findings(then: Array, now: Array, kind: str = "numeric") -> dict[Measure, Finding]:
    edges = EDGES if kind == "numeric" else None
    found = examine_column(Column("x", kind, Counts(then), Counts(now), edges))  # type: ignore[arg-type]
    return {one.measure: one for one in found}


def rows(counts: Array) -> Array:
    return np.repeat(POINTS, counts.astype(int))


def test_psi_is_evidentlys() -> None:
    # evidently/legacy/calculations/stattests/psi.py, _psi, of shares without a zero.
    p, q = THEN / THEN.sum(), NOW / NOW.sum()
    found = findings(THEN, NOW)["psi"]
    assert found.effect == pytest.approx(float(((p - q) * np.log(p / q)).sum()), abs=1e-12)
    # Yurdakul 2018: PSI is (1/n + 1/m) times a chi-square of bins less one.
    times = 1 / THEN.sum() + 1 / NOW.sum()
    assert found.p_value == pytest.approx(stats.chi2.sf(found.effect / times, 6), abs=1e-9)


def test_jensen_shannon_is_scipys_distance_of_base_two() -> None:
    # NannyML's JensenShannonDistance, categorical: jensenshannon(reference, analysis, base=2) of shares.
    theirs = jensenshannon(THEN, NOW, base=2)
    found = findings(THEN, NOW)["js"]
    assert found.effect == pytest.approx(theirs, abs=1e-9)
    assert measures.jensen_shannon(THEN, NOW) == pytest.approx(theirs**2, abs=1e-12)
    # Evidently's is the same distance in nats: base e.
    assert found.effect * math.sqrt(math.log(2)) == pytest.approx(jensenshannon(THEN, NOW), abs=1e-9)  # type: ignore[operator]
    chi_square = findings(THEN, NOW)["chi_square"].p_value
    assert found.p_value == pytest.approx(chi_square, rel=0.1)


def test_chi_square_is_scipys_without_yates() -> None:
    # NannyML's Chi2Statistic too: chi2_contingency of the table of counts.
    told = stats.chi2_contingency(np.stack([THEN, NOW]), correction=False)
    found = findings(THEN, NOW)["chi_square"]
    assert found.p_value == pytest.approx(told.pvalue, abs=1e-9)
    assert measures.pearson(THEN, NOW) == pytest.approx(told.statistic, abs=1e-9)
    assert found.effect == pytest.approx(
        stats.contingency.association(np.stack([THEN, NOW]).astype(int), method="cramer"), abs=1e-9
    )


def test_kolmogorov_smirnov_is_scipys_on_the_same_points() -> None:
    told = stats.ks_2samp(rows(THEN), rows(NOW), method="asymp")
    found = findings(THEN, NOW)["ks"]
    assert found.effect == pytest.approx(told.statistic, abs=1e-9)
    assert found.p_value == pytest.approx(told.pvalue, abs=1e-9)


def test_a_distance_of_1_is_no_certainty_where_few_rows_show_it() -> None:
    # Of so many rows or more Kolmogorov's distance is never 1: its chance is 0, of one row and of three as well.
    then, now = np.array([0, 400, 400, 400, 0, 0, 0.0]), np.array([0, 0, 0, 0, 0, 0, 1.0])
    for many, least, most in ((1, 0.5, 1.0), (3, 0.005, 0.05), (300, 0.0, 1e-100)):
        assert stats.kstwo.sf(1.0, many) == 0
        assert least <= findings(then, many * now)["ks"].p_value <= most  # type: ignore[operator]


def test_wasserstein_is_scipys_on_the_same_points_in_the_references_deviations() -> None:
    # evidently/.../wasserstein_distance_norm.py: wasserstein_distance(reference, current) / max(std(reference), 0.001).
    theirs = stats.wasserstein_distance(rows(THEN), rows(NOW)) / max(np.std(rows(THEN)), 0.001)
    found = findings(THEN, NOW)["wasserstein"]
    assert found.effect == pytest.approx(theirs, abs=1e-9)
    assert found.p_value is None


def test_rates_are_the_score_test_and_of_few_rows_fishers() -> None:
    def missing(then: float, now: float, total: float = 1_000) -> Finding:
        pair = (Counts(np.array([total - one]), one) for one in (then, now))
        return next(one for one in examine_column(Column("x", "category", *pair)) if one.measure == "missing")

    table = np.array([[970, 30], [940, 60]])
    found = missing(30, 60)
    assert found.effect == pytest.approx(0.03)
    assert found.p_value == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, abs=1e-9)
    few = missing(0, 4)
    assert few.p_value == pytest.approx(stats.fisher_exact([[1_000, 0], [996, 4]]).pvalue, abs=1e-9)
    assert missing(10, 10).p_value == 1


@pytest.mark.timeout(20)  # scipy's hypergeometric takes minutes of such tables
def test_rates_of_a_trillion_rows_are_fishers_at_once() -> None:
    def missing(*tables: tuple[float, float]) -> float | None:
        pair = (Counts(np.array([there]), gone) for there, gone in tables)
        return next(one.p_value for one in examine_column(Column("x", "category", *pair)) if one.measure == "missing")

    # Of so many rows the rare ones are drawn as by coins.
    assert missing((1e12, 3), (1e12, 1)) == pytest.approx(stats.binomtest(1, 4, 0.5).pvalue, rel=1e-9)
    assert missing((1e12, 0), (1e3, 4)) == pytest.approx(stats.binomtest(4, 4, 1e-9).pvalue, rel=0.02)
    assert missing((1e12, 1e12), (3, 0)) == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_fishers_test_is_scipys(seed: int) -> None:
    random = np.random.default_rng(seed)
    for table in random.integers(0, [[[300, 4], [300, 4]]], (200, 2, 2)):
        for one in (table, table[::-1], table.T, table[:, ::-1]):
            assert measures.fisher(*one) == pytest.approx(stats.fisher_exact(one).pvalue, rel=1e-9)


def test_small_bins_are_pooled_with_neighbours_or_the_rarest_together() -> None:
    then, now = np.array([90.0, 1, 2, 90, 3]), np.array([90.0, 2, 1, 90, 2])
    ordered, rarest = (measures.pool_bins(then, now, ordered=ordered) for ordered in (True, False))
    assert ordered.tolist() == [0, 1, 1, 1, 1]
    # Of categories the three rare ones are one group: 11 rows, 5.5 expected on either side.
    assert rarest[[1, 2, 4]].tolist() == [0, 0, 0] and len(set(rarest.tolist())) == 3
    for groups in (ordered, rarest):
        pooled = [np.bincount(groups, one) for one in (then, now)]
        assert stats.contingency.expected_freq(np.stack(pooled)).min() >= 5
    # Negative control: without pooling the cells are too small.
    assert stats.contingency.expected_freq(np.stack([then, now])).min() < 5


def test_pooled_bins_are_those_that_chi_square_tests() -> None:
    then, now = np.array([90.0, 1, 2, 90, 3]), np.array([60.0, 2, 1, 120, 2])
    found = examine_column(Column("x", "category", Counts(then), Counts(now)))
    merged = [[90, 90, 6], [60, 120, 5]]
    chi_square = next(one for one in found if one.measure == "chi_square")
    assert chi_square.p_value == pytest.approx(stats.chi2_contingency(merged, correction=False).pvalue, abs=1e-9)


def test_an_empty_bin_says_little_of_few_rows_and_much_of_many() -> None:
    small, large = (
        float(measures.psi(np.array([rows, 0.0]), np.array([rows * 0.9, rows * 0.1]))) for rows in (10, 1e6)
    )
    assert small == pytest.approx(0.1 * math.log(10 / 9) + 0.05 * math.log(2))
    assert large > 1
    # Empty in both is no bin at all.
    with_empty = [np.append(one, 0.0) for one in (THEN, NOW)]
    assert measures.psi(*with_empty) == pytest.approx(measures.psi(THEN, NOW), abs=1e-15)


@pytest.mark.parametrize("kind", ["numeric", "category"])
def test_equal_shares_are_no_drift(kind: str) -> None:
    for one in findings(THEN, THEN * 3, kind).values():
        assert one.effect == pytest.approx(0, abs=1e-7) and (one.p_value is None or one.p_value > 0.999)


def test_many_rows_make_anything_significant_and_few_nothing() -> None:
    # That is why a decision needs both: the effect is the same, a hundredth of what matters.
    slight = THEN * np.linspace(0.95, 1.05, 7)
    many, few = findings(THEN * 1e4, slight * 1e4)["psi"], findings(THEN, slight)["psi"]
    assert many.effect == pytest.approx(few.effect) and many.effect < 0.002  # type: ignore[operator]
    assert many.p_value < 1e-100 and few.p_value > 0.9  # type: ignore[operator]
    # And of thirty rows a large effect is not significant.
    tiny = findings(THEN, np.array([1, 3, 3, 9, 8, 4, 2.0]))["psi"]
    assert tiny.effect > 0.1 and tiny.p_value > 0.05  # type: ignore[operator]


EMPTY = np.zeros(7)
ODD = {
    "nothing in the window": (THEN, EMPTY),
    "nothing in the reference": (EMPTY, NOW),
    "nothing at all": (EMPTY, EMPTY),
    "three rows": (THEN, np.array([0, 0, 1, 2, 0, 0, 0.0])),
    "a constant reference": (np.array([0, 0, 500, 0, 0, 0, 0.0]), np.array([0, 0, 70, 0, 0, 0, 0.0])),
    "empty bins": (np.array([0, 100, 0, 300, 0, 100, 0.0]), np.array([0, 22, 0, 60, 0, 20, 0.0])),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", ["numeric", "category"])
def test_odd_counts_are_told_and_no_drift(name: str, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = findings(*ODD[name], kind).values()
    for one in found:
        assert one.effect is None or math.isfinite(one.effect)
        assert one.p_value is None or 0.05 < one.p_value <= 1
        assert one.effect is not None or one.note


def test_a_sensor_stuck_at_one_value_is_drift_and_the_reverse_too() -> None:
    stuck = np.array([0, 0, 0, 900, 0, 0, 0.0])
    for pair in ((THEN, stuck), (stuck, THEN)):
        found = findings(*pair)["psi"]
        assert found.effect > 1 and found.p_value < 1e-50  # type: ignore[operator]
    assert findings(stuck, THEN)["wasserstein"].effect is None


def test_all_null_is_the_missing_rates_drift() -> None:
    column = Column("x", "numeric", Counts(THEN, 10), Counts(EMPTY, 700), EDGES)
    found = {one.measure: one for one in examine_column(column)}
    assert found["missing"].effect == pytest.approx(0.99, abs=1e-3) and found["missing"].p_value < 1e-100  # type: ignore[operator]
    assert (found["psi"].effect, found["psi"].note) == (None, "the window has no values")


def test_what_the_reference_never_saw_is_counted_by_itself() -> None:
    found = {
        one.measure: one for one in examine_column(Column("x", "category", Counts([90, 10, 0]), Counts([80, 10, 10])))
    }  # type: ignore[arg-type]
    assert found["unseen"].effect == pytest.approx(0.1)
    assert found["unseen"].p_value == pytest.approx(
        stats.chi2_contingency([[100, 0], [90, 10]], correction=False).pvalue
    )


def test_a_label_is_a_rate_only() -> None:
    found = examine_column(Column("late", "label", Counts(np.array([800, 200])), Counts(np.array([600, 400]))))
    assert [one.measure for one in found] == ["label_rate"] and found[0].effect == pytest.approx(0.2)


def test_a_vanished_column_is_told_and_a_new_one_is_none() -> None:
    (gone,) = examine_column(Column("x", "numeric", Counts(THEN), None, EDGES))
    assert (gone.measure, gone.effect, gone.p_value) == ("vanished", 1, 0) and "missing in the window" in gone.note
    (new,) = examine_column(Column("x", "numeric", None, Counts(NOW), EDGES))
    assert (new.effect, new.p_value) == (None, None)


def test_what_does_not_fit_is_refused() -> None:
    for wrong in (np.array([1.0, -1]), np.array([1, np.nan]), np.array([[[1.0]]])):
        with pytest.raises(DataError):
            Counts(wrong)
    with pytest.raises(DataError, match="do not fit missing"):
        Counts(np.ones((3, 2)), np.ones(2))
    with pytest.raises(DataError, match="2 and 3 bins"):
        Column("x", "category", Counts(np.ones(2)), Counts(np.ones(3)))
    with pytest.raises(DataError, match="2 edges, but 7 bins"):
        Column("x", "numeric", Counts(THEN), Counts(NOW), np.array([1.0, 2]))


def test_no_counts_give_a_number_that_is_none() -> None:
    random = np.random.default_rng(8)

    def counts(days: int) -> Counts:
        rate = random.choice([0, 0.02, 1, 50], size=(days, 1)) * random.choice([0, 1, 3], size=7)
        return Counts(random.poisson(rate), random.poisson(random.choice([0, 1, 20], size=days)), np.arange(days) % 7)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("numeric", "category"):
            pairs = [(counts(random.integers(1, 20)), counts(random.integers(1, 9))) for _ in range(300)]
            told = [one for pair in pairs for one in examine_column(Column("x", kind, *pair, edges=EDGES))]  # type: ignore[arg-type]
    assert all(one.effect is None or (math.isfinite(one.effect) and one.effect >= 0) for one in told)
    assert all(one.p_value is None or 0 <= one.p_value <= 1 for one in told)
    assert {one.note for one in told} >= {"", "the window has no values", "the reference has no values"}


def test_scores_of_another_model_are_drift() -> None:
    random, edges = np.random.default_rng(9), np.arange(1, 20) / 20
    then, now, lower = (np.histogram(random.beta(2, b, 5_000), [0, *edges, 1])[0] for b in (5, 5, 8))
    same, other = (
        examine_column(Column("score", "numeric", Counts(then), Counts(one), edges))[0] for one in (now, lower)
    )
    assert same.p_value > 0.01 and same.effect < 0.02  # type: ignore[operator]
    assert other.p_value < 1e-50 and other.effect > 0.3  # type: ignore[operator]
