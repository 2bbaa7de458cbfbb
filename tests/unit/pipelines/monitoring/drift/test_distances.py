"""Test the measures against scipy. `test_drift_tools` has numbers of Evidently and NannyML."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import jensenshannon

from pipelines.errors import DataError
from pipelines.monitoring.drift import distances
from pipelines.monitoring.drift.columns import examine_column
from pipelines.monitoring.drift.counts import Array, ComparedColumn, Counts
from pipelines.monitoring.drift.finding import Finding, Measure

REFERENCE = np.array([40, 110, 205, 310, 190, 95, 50.0])
WINDOW = np.array([20, 60, 120, 230, 170, 90, 60.0])
EDGES = np.array([-2, -1, 0, 0.5, 1.5, 3.0])
POINTS = np.array([-2, -1.5, -0.5, 0.25, 1.0, 2.25, 3.0])


def measure_findings(reference: Array, window: Array, kind: str = "numeric") -> dict[Measure, Finding]:
    edges = EDGES if kind == "numeric" else None
    results = examine_column(ComparedColumn("x", kind, Counts(reference), Counts(window), edges))
    return {finding.measure: finding for finding in results}


def expand_rows(counts: Array) -> Array:
    return np.repeat(POINTS, counts.astype(int))


def test_psi_is_the_sum_of_its_definition_and_a_chi_square() -> None:
    p, q = REFERENCE / REFERENCE.sum(), WINDOW / WINDOW.sum()
    finding = measure_findings(REFERENCE, WINDOW)["psi"]
    assert finding.effect == pytest.approx(float(((p - q) * np.log(p / q)).sum()), abs=1e-12)
    # Yurdakul 2018: PSI is (1/n + 1/m) times a chi-square with one degree of freedom less than bins.
    factor = 1 / REFERENCE.sum() + 1 / WINDOW.sum()
    assert finding.p_value == pytest.approx(stats.chi2.sf(finding.effect / factor, 6), abs=1e-9)


def test_jensen_shannon_equals_the_distance_of_scipy_with_base_two() -> None:
    expected = jensenshannon(REFERENCE, WINDOW, base=2)
    finding = measure_findings(REFERENCE, WINDOW)["js"]
    assert finding.effect == pytest.approx(expected, abs=1e-9)
    assert distances.compute_jensen_shannon(REFERENCE, WINDOW) == pytest.approx(expected**2, abs=1e-12)
    chi_square = measure_findings(REFERENCE, WINDOW)["chi_square"].p_value
    assert finding.p_value == pytest.approx(chi_square, rel=0.1)


def test_chi_square_equals_that_of_scipy_without_yates() -> None:
    expected = stats.chi2_contingency(np.stack([REFERENCE, WINDOW]), correction=False)
    finding = measure_findings(REFERENCE, WINDOW)["chi_square"]
    assert finding.p_value == pytest.approx(expected.pvalue, abs=1e-9)
    assert distances.compute_chi_square(REFERENCE, WINDOW) == pytest.approx(expected.statistic, abs=1e-9)
    assert finding.effect == pytest.approx(
        stats.contingency.association(np.stack([REFERENCE, WINDOW]).astype(int), method="cramer"), abs=1e-9
    )


def test_kolmogorov_smirnov_equals_that_of_scipy_on_the_same_points() -> None:
    expected = stats.ks_2samp(expand_rows(REFERENCE), expand_rows(WINDOW), method="asymp")
    finding = measure_findings(REFERENCE, WINDOW)["ks"]
    assert finding.effect == pytest.approx(expected.statistic, abs=1e-9)
    assert finding.p_value == pytest.approx(expected.pvalue, abs=1e-9)


def test_a_distance_of_1_is_not_certain_with_few_rows() -> None:
    # By Kolmogorov's distribution a distance of 1 has probability 0, with one row as with many.
    reference, window = np.array([0, 400, 400, 400, 0, 0, 0.0]), np.array([0, 0, 0, 0, 0, 0, 1.0])
    for rows, low, high in ((1, 0.5, 1.0), (3, 0.005, 0.05), (300, 0.0, 1e-100)):
        assert stats.kstwo.sf(1.0, rows) == 0
        assert low <= measure_findings(reference, rows * window)["ks"].p_value <= high


def test_wasserstein_equals_that_of_scipy_divided_by_the_standard_deviation() -> None:
    expected = stats.wasserstein_distance(expand_rows(REFERENCE), expand_rows(WINDOW)) / max(
        np.std(expand_rows(REFERENCE)), 0.001
    )
    finding = measure_findings(REFERENCE, WINDOW)["wasserstein"]
    assert finding.effect == pytest.approx(expected, abs=1e-9)
    assert finding.p_value is None


def test_rates_use_the_score_test_or_fishers_test_for_few_rows() -> None:
    def find_missing(before: float, after: float, total: float = 1_000) -> Finding:
        pair = (Counts(np.array([total - missing]), missing) for missing in (before, after))
        findings = examine_column(ComparedColumn("x", "category", *pair))
        return next(finding for finding in findings if finding.measure == "missing")

    table = np.array([[970, 30], [940, 60]])
    finding = find_missing(30, 60)
    assert finding.effect == pytest.approx(0.03)
    assert finding.p_value == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, abs=1e-9)
    exact = find_missing(0, 4)
    assert exact.p_value == pytest.approx(stats.fisher_exact([[1_000, 0], [996, 4]]).pvalue, abs=1e-9)
    assert find_missing(10, 10).p_value == 1


@pytest.mark.timeout(100)  # scipy's hypergeometric distribution takes minutes for such tables
def test_fishers_p_value_of_a_trillion_rows_is_fast() -> None:
    def compute_p_value(*tables: tuple[float, float]) -> float | None:
        pair = (Counts(np.array([present]), missing) for present, missing in tables)
        findings = examine_column(ComparedColumn("x", "category", *pair))
        return next(finding.p_value for finding in findings if finding.measure == "missing")

    # With so many rows, rare ones follow a binomial distribution.
    assert compute_p_value((1e12, 3), (1e12, 1)) == pytest.approx(stats.binomtest(1, 4, 0.5).pvalue, rel=1e-9)
    assert compute_p_value((1e12, 0), (1e3, 4)) == pytest.approx(stats.binomtest(4, 4, 1e-9).pvalue, rel=0.02)
    assert compute_p_value((1e12, 1e12), (3, 0)) == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_fishers_test_equals_that_of_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    for table in random.integers(0, [[[300, 4], [300, 4]]], (200, 2, 2)):
        for variant in (table, table[::-1], table.T, table[:, ::-1]):
            assert distances.compute_fisher_p_value(*variant) == pytest.approx(
                stats.fisher_exact(variant).pvalue, rel=1e-9
            )


def test_small_bins_are_pooled_with_neighbours_and_rare_categories_together() -> None:
    reference, window = np.array([90.0, 1, 2, 90, 3]), np.array([90.0, 2, 1, 90, 2])
    ordered_groups, unordered_groups = (
        distances.pool_bins(reference, window, is_ordered=is_ordered) for is_ordered in (True, False)
    )
    assert ordered_groups.tolist() == [0, 1, 1, 1, 1]
    # The three rare categories are one group: 11 rows, 5.5 expected on either side.
    assert unordered_groups[[1, 2, 4]].tolist() == [0, 0, 0] and len(set(unordered_groups.tolist())) == 3
    for groups in (ordered_groups, unordered_groups):
        pooled_counts = [np.bincount(groups, counts) for counts in (reference, window)]
        assert stats.contingency.expected_freq(np.stack(pooled_counts)).min() >= 5
    # Negative control: without pooling the cells are too small.
    assert stats.contingency.expected_freq(np.stack([reference, window])).min() < 5


def test_chi_square_uses_the_pooled_bins() -> None:
    reference, window = np.array([90.0, 1, 2, 90, 3]), np.array([60.0, 2, 1, 120, 2])
    findings = examine_column(ComparedColumn("x", "category", Counts(reference), Counts(window)))
    merged_counts = [[90, 90, 6], [60, 120, 5]]
    chi_square = next(finding for finding in findings if finding.measure == "chi_square")
    assert chi_square.p_value == pytest.approx(stats.chi2_contingency(merged_counts, correction=False).pvalue, abs=1e-9)


def test_an_empty_bin_matters_little_with_few_rows_and_much_with_many() -> None:
    small, large = (
        float(distances.compute_psi(np.array([rows, 0.0]), np.array([rows * 0.9, rows * 0.1]))) for rows in (10, 1e6)
    )
    assert small == pytest.approx(0.1 * math.log(10 / 9) + 0.05 * math.log(2))
    assert large > 1
    # A bin that is empty in both counts as no bin.
    with_empty = [np.append(counts, 0.0) for counts in (REFERENCE, WINDOW)]
    assert distances.compute_psi(*with_empty) == pytest.approx(distances.compute_psi(REFERENCE, WINDOW), abs=1e-15)


@pytest.mark.parametrize("kind", ["numeric", "category"])
def test_equal_shares_are_no_drift(kind: str) -> None:
    for finding in measure_findings(REFERENCE, REFERENCE * 3, kind).values():
        assert finding.effect == pytest.approx(0, abs=1e-7) and (finding.p_value is None or finding.p_value > 0.999)


def test_any_effect_is_significant_with_many_rows_and_none_with_few() -> None:
    # Therefore a decision needs both: the effect is the same, a hundredth of the bound.
    slight = REFERENCE * np.linspace(0.95, 1.05, 7)
    many, few = measure_findings(REFERENCE * 1e4, slight * 1e4)["psi"], measure_findings(REFERENCE, slight)["psi"]
    assert many.effect == pytest.approx(few.effect) and many.effect < 0.002
    assert many.p_value < 1e-100 and few.p_value > 0.9
    # With thirty rows even a large effect is not significant.
    large_effect = measure_findings(REFERENCE, np.array([1, 3, 3, 9, 8, 4, 2.0]))["psi"]
    assert large_effect.effect > 0.1 and large_effect.p_value > 0.05


EMPTY = np.zeros(7)
UNUSUAL = {
    "empty window": (REFERENCE, EMPTY),
    "empty reference": (EMPTY, WINDOW),
    "both empty": (EMPTY, EMPTY),
    "three rows": (REFERENCE, np.array([0, 0, 1, 2, 0, 0, 0.0])),
    "constant reference": (np.array([0, 0, 500, 0, 0, 0, 0.0]), np.array([0, 0, 70, 0, 0, 0, 0.0])),
    "empty bins": (np.array([0, 100, 0, 300, 0, 100, 0.0]), np.array([0, 22, 0, 60, 0, 20, 0.0])),
}


@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("kind", ["numeric", "category"])
def test_unusual_counts_give_valid_numbers_and_no_drift(name: str, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        findings = measure_findings(*UNUSUAL[name], kind).values()
    for finding in findings:
        assert finding.effect is None or math.isfinite(finding.effect)
        assert finding.p_value is None or 0.05 < finding.p_value <= 1
        assert finding.effect is not None or finding.note


def test_a_sensor_that_becomes_constant_or_stops_being_constant_is_drift() -> None:
    constant = np.array([0, 0, 0, 900, 0, 0, 0.0])
    for pair in ((REFERENCE, constant), (constant, REFERENCE)):
        finding = measure_findings(*pair)["psi"]
        assert finding.effect > 1 and finding.p_value < 1e-50
    assert measure_findings(constant, REFERENCE)["wasserstein"].effect is None


def test_a_column_of_nulls_is_drift_of_the_missing_rate() -> None:
    column = ComparedColumn("x", "numeric", Counts(REFERENCE, 10), Counts(EMPTY, 700), EDGES)
    findings = {finding.measure: finding for finding in examine_column(column)}
    assert findings["missing"].effect == pytest.approx(0.99, abs=1e-3) and findings["missing"].p_value < 1e-100
    assert (findings["psi"].effect, findings["psi"].note) == (None, "the window has no values")


def test_values_that_the_reference_does_not_have_are_counted_as_unseen() -> None:
    findings = {
        finding.measure: finding
        for finding in examine_column(ComparedColumn("x", "category", Counts([90, 10, 0]), Counts([80, 10, 10])))
    }
    assert findings["unseen"].effect == pytest.approx(0.1)
    assert findings["unseen"].p_value == pytest.approx(
        stats.chi2_contingency([[100, 0], [90, 10]], correction=False).pvalue
    )


def test_a_label_is_measured_only_by_its_rate() -> None:
    findings = examine_column(
        ComparedColumn("late", "label", Counts(np.array([800, 200])), Counts(np.array([600, 400])))
    )
    assert [finding.measure for finding in findings] == ["label_rate"] and findings[0].effect == pytest.approx(0.2)


def test_a_missing_column_is_a_finding_and_a_new_one_has_no_effect() -> None:
    (missing,) = examine_column(ComparedColumn("x", "numeric", Counts(REFERENCE), None, EDGES))
    assert (missing.measure, missing.effect, missing.p_value) == (
        "missing_column",
        1,
        0,
    ) and "missing in the window" in missing.note
    (new,) = examine_column(ComparedColumn("x", "numeric", None, Counts(WINDOW), EDGES))
    assert (new.effect, new.p_value) == (None, None)


def test_refuses_counts_that_do_not_fit() -> None:
    for counts in (np.array([1.0, -1]), np.array([1, np.nan]), np.array([[[1.0]]])):
        with pytest.raises(DataError):
            Counts(counts)
    with pytest.raises(DataError, match="do not fit missing"):
        Counts(np.ones((3, 2)), np.ones(2))
    with pytest.raises(DataError, match="2 and 3 bins"):
        ComparedColumn("x", "category", Counts(np.ones(2)), Counts(np.ones(3)))
    with pytest.raises(DataError, match="2 edges, but 7 bins"):
        ComparedColumn("x", "numeric", Counts(REFERENCE), Counts(WINDOW), np.array([1.0, 2]))


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.soak)])
def test_random_counts_give_only_finite_numbers(count: int) -> None:
    random = np.random.default_rng(8)

    def draw_counts(days: int) -> Counts:
        rate = random.choice([0, 0.02, 1, 50], size=(days, 1)) * random.choice([0, 1, 3], size=7)
        return Counts(random.poisson(rate), random.poisson(random.choice([0, 1, 20], size=days)), np.arange(days) % 7)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("numeric", "category"):
            pairs = [(draw_counts(random.integers(1, 20)), draw_counts(random.integers(1, 9))) for _ in range(count)]
            findings = [
                finding for pair in pairs for finding in examine_column(ComparedColumn("x", kind, *pair, edges=EDGES))
            ]
    assert all(
        finding.effect is None or (math.isfinite(finding.effect) and finding.effect >= 0) for finding in findings
    )
    assert all(finding.p_value is None or 0 <= finding.p_value <= 1 for finding in findings)
    assert {finding.note for finding in findings} >= {"", "the window has no values", "the reference has no values"}


def test_scores_of_another_model_are_drift() -> None:
    random, edges = np.random.default_rng(9), np.arange(1, 20) / 20
    reference, window, lower = (np.histogram(random.beta(2, b, 5_000), [0, *edges, 1])[0] for b in (5, 5, 8))
    same, other = (
        examine_column(ComparedColumn("score", "numeric", Counts(reference), Counts(counts), edges))[0]
        for counts in (window, lower)
    )
    assert same.p_value > 0.01 and same.effect < 0.02
    assert other.p_value < 1e-50 and other.effect > 0.3
