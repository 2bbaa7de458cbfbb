"""Test when findings of several windows become an alarm, and how the decision is explained."""

import math
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from pydantic import ValidationError

from pipelines.monitoring.drift import Finding, Policy, WindowResult, decide, decide_each
from pipelines.monitoring.drift.alarms import adjust_p_values, find_breaches
from pipelines.monitoring.drift.columns import summarize_window
from pipelines.monitoring.drift.counts import ComparedColumn, Counts

POLICY = Policy(at_least=2, of_last=3)
LARGE_PSI, TINY_P = 0.3, 1e-9


def build_window(
    psi: float = 0.0,
    p_value: float = TINY_P,
    rows: int = 5_000,
    weight: float = 0.5,
    other_findings: Sequence[Finding] = (),
) -> WindowResult:
    return WindowResult("2013-04-01", rows, (Finding("x", "psi", psi, p_value, weight), *other_findings))


def decide_outcomes(windows: Sequence[WindowResult], policy: Policy = POLICY) -> list[str]:
    return [decision.outcome for decision in decide_each(windows, policy)]


def test_drift_needs_a_large_effect_and_a_small_p_value() -> None:
    assert decide_outcomes([build_window(LARGE_PSI)] * 2) == ["none", "drift"]
    # Negative controls: only one of the two.
    assert decide_outcomes([build_window(0.05)] * 2) == ["none", "none"]
    assert decide_outcomes([build_window(LARGE_PSI, 0.04)] * 2) == ["none", "none"]


def test_drift_has_to_last() -> None:
    shifted_window, calm_window = build_window(LARGE_PSI), build_window(0.01)
    assert decide_outcomes([shifted_window, calm_window, calm_window, shifted_window, calm_window, shifted_window]) == [
        "none"
    ] * 5 + ["drift"]


def test_an_alarm_ends_only_below_the_lower_bound() -> None:
    # Above the bound of 0.1, then between it and the lower bound of 0.05, then below both.
    outcomes = decide_outcomes([build_window(psi) for psi in (LARGE_PSI, LARGE_PSI, 0.08, 0.06, 0.04, 0.08)])
    assert outcomes == ["none", "drift", "drift", "drift", "none", "none"]
    assert (
        decide_outcomes(
            [build_window(psi) for psi in (LARGE_PSI, LARGE_PSI, 0.08)], Policy(at_least=2, of_last=3, end_below=1.0)
        )[2]
        == "none"
    )


def test_a_window_of_few_rows_is_undecided_and_changes_no_alarm() -> None:
    small_window = build_window(LARGE_PSI, rows=3)
    assert decide_outcomes([small_window] * 4) == ["undecided"] * 4
    assert decide_outcomes(
        [build_window(LARGE_PSI), small_window, build_window(LARGE_PSI), small_window, build_window(0.08)]
    ) == [
        "none",
        "undecided",
        "drift",
        "undecided",
        "drift",
    ]
    assert decide([], POLICY).outcome == "undecided"


def test_an_unimportant_column_does_not_alarm_by_itself() -> None:
    unimportant = build_window(LARGE_PSI, weight=0.01)
    assert decide_outcomes([unimportant] * 3) == ["none"] * 3
    two_columns = build_window(LARGE_PSI, weight=0.01, other_findings=[Finding("y", "psi", LARGE_PSI, TINY_P, 0.015)])
    assert decide_outcomes([two_columns] * 2) == ["none", "drift"]


def test_p_values_of_many_columns_are_corrected_together() -> None:
    calm_columns = [Finding(f"c{number}", "psi", 0.0, 0.5) for number in range(99)]
    window = build_window(LARGE_PSI, POLICY.alpha * 0.9, other_findings=calm_columns)
    assert not find_breaches(window, POLICY)
    # Negative control: without the other columns, the same p-value is enough.
    assert find_breaches(build_window(LARGE_PSI, POLICY.alpha * 0.9), POLICY)


def test_p_values_are_adjusted_by_benjamini_and_hochberg() -> None:
    """The expected values are computed by hand: p times n over its rank, made monotone from the largest down."""
    assert adjust_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02], abs=1e-15)
    assert adjust_p_values([0.2]) == [0.2]
    assert adjust_p_values([]) == []


def test_a_decision_names_the_worst_columns_first_with_their_numbers() -> None:
    windows = [
        build_window(0.15, other_findings=[Finding("y", "missing", 0.4, TINY_P), Finding("z", "js", 0.9, TINY_P)])
    ] * 2
    decision = decide(windows, POLICY)
    assert decision.is_drift and decision.drifted_columns == ("y", "x")
    assert decision.reasons[1] == "x: psi 0.15, bound 0.1, p = 1e-09; significantly over the bound in 2 of 2 windows"


def test_a_decision_without_drift_gives_the_reason_and_what_would_be_an_alarm() -> None:
    first_line = "1 column is significantly over the bound, which is no alarm yet"
    assert decide([build_window(LARGE_PSI)], POLICY).reasons == (
        first_line,
        "x: psi 0.3, bound 0.1, p = 1e-09; in 1 of the last 3 windows, and an alarm needs 2",
    )
    assert decide([build_window(LARGE_PSI, weight=0.01)] * 3, POLICY).reasons == (
        first_line,
        "x: psi 0.3, bound 0.1, p = 1e-09; the columns over the bound in enough windows have the total importance "
        "0.01, and an alarm needs 0.02",
    )
    many = [Finding(f"y{number}", "missing", 0.4 + number / 100, TINY_P) for number in range(9)]
    reasons = decide([build_window(LARGE_PSI, other_findings=many)], POLICY).reasons
    assert [reason.partition(":")[0] for reason in reasons[1:]] == [f"y{number}" for number in (8, 7, 6, 5, 4)]
    assert decide([build_window(LARGE_PSI, 0.5)], POLICY).reasons == (
        "1 column is over the bound, but not significantly: it may be chance",
        "x: psi 0.3, bound 0.1, p = 0.5, adjusted p = 0.5",
    )
    assert decide([build_window(0.0, 0.5)], POLICY).reasons == ("nothing drifted",)


def test_columns_that_may_be_over_the_bound_by_chance_are_named_with_their_values() -> None:
    alpha = POLICY.alpha
    calm = [Finding(f"c{number}", "psi", 0.0, 0.9) for number in range(8)]
    others = [Finding("y", "missing", 0.4, None), Finding("y", "psi", 0.11, 0.9)]
    decision = decide([build_window(0.15, alpha * 0.9, other_findings=[*calm, *others])], POLICY)
    assert decision.outcome == "none" and decision.drifted_columns == ()
    assert decision.reasons == (
        "2 columns are over the bound, but not significantly: it may be chance",
        f"y: missing 0.4, bound {POLICY.bounds['missing']:g}, not tested",
        # The p-value alone would be significant; the correction for many tests says why it is not.
        f"x: psi 0.15, bound 0.1, p = {alpha * 0.9:.2g}, adjusted p = {alpha * 9:.2g}",
    )
    many = [Finding(f"y{number}", "missing", 0.4 + number / 100, 0.9) for number in range(9)]
    reasons = decide([build_window(0.0, 0.9, other_findings=many)], POLICY).reasons
    assert [reason.partition(":")[0] for reason in reasons[1:-1]] == [f"y{number}" for number in (8, 7, 6, 5, 4)]
    assert reasons[-1] == "and 4 more, in the table of findings"


def test_a_decision_does_not_depend_on_later_windows() -> None:
    random = np.random.default_rng(4)
    windows = [
        build_window(float(psi), rows=int(rows))
        for psi, rows in zip(random.random(60) * 0.2, random.integers(0, 9_000, 60), strict=True)
    ]
    daily = [decide(windows[: day + 1], POLICY) for day in range(60)]
    assert list(decide_each(windows, POLICY)) == daily
    assert {"drift", "none", "undecided"} == {decision.outcome for decision in daily}


def test_a_column_that_stays_missing_is_drift() -> None:
    column = ComparedColumn("x", "numeric", Counts(np.ones(3)), None)
    decision = decide([summarize_window("2013-04-01", 5_000, [column])] * 2, POLICY)
    assert decision.reasons == ("x: the column is missing in the window, or has another type",)


def test_empty_windows_are_undecided() -> None:
    column = ComparedColumn("x", "numeric", Counts(np.ones(3)), Counts(np.zeros(3)))
    assert decide([summarize_window("2013-04-01", 0, [column])] * 5, POLICY).outcome == "undecided"


@pytest.mark.parametrize(
    "fields",
    [
        {"psi": 0.1},
        {"bounds": {"psy": 0.1}},
        {"bounds": {"wasserstein": 0.1}},
        {"bounds": {"psi": 0}},
        {"bounds": {"psi": math.inf}},
        {"bounds": {"psi": math.nan}},
        {"bounds": {"missing": 5}},
        {"bounds": {}},
        {"at_least": 6},
        {"end_below": 0},
        {"min_rows": 0},
        {"min_weight": 2},
        {"false_alarms_per_year": 0},
        {"false_alarms_per_year": 200},
    ],
)
def test_refuses_a_policy_that_would_detect_nothing(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate(fields)


def test_the_false_alarms_of_a_year_are_divided_among_its_windows() -> None:
    assert Policy().alpha == pytest.approx(0.5 / 365)
    assert Policy(false_alarms_per_year=1, windows_per_year=52).alpha == pytest.approx(1 / 52)


def test_importing_drift_loads_no_heavy_library() -> None:
    code = (
        "import sys, pipelines.monitoring.drift; print([n for n in ('numpy', 'scipy', 'pandas') if n in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
