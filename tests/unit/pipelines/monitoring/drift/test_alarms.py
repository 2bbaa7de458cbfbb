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
from pipelines.monitoring.drift.counts import Column, Counts

POLICY = Policy(at_least=2, of_last=3)
FAR, SURE = 0.3, 1e-9


def a_window(
    psi: float = 0.0, p_value: float = SURE, rows: int = 5_000, weight: float = 0.5, others: Sequence[Finding] = ()
) -> WindowResult:
    return WindowResult("2013-04-01", rows, (Finding("x", "psi", psi, p_value, weight), *others))


def outcomes(windows: Sequence[WindowResult], policy: Policy = POLICY) -> list[str]:
    return [one.outcome for one in decide_each(windows, policy)]


def test_drift_needs_an_effect_and_a_p_value() -> None:
    assert outcomes([a_window(FAR)] * 2) == ["none", "drift"]
    # Negative controls: one of the two.
    assert outcomes([a_window(0.05)] * 2) == ["none", "none"]
    assert outcomes([a_window(FAR, 0.04)] * 2) == ["none", "none"]


def test_it_has_to_last() -> None:
    far, near = a_window(FAR), a_window(0.01)
    assert outcomes([far, near, near, far, near, far]) == ["none"] * 5 + ["drift"]


def test_an_alarm_ends_only_below_the_lower_bound() -> None:
    # Over the bound of 0.1, then between it and 0.05, then below.
    told = outcomes([a_window(one) for one in (FAR, FAR, 0.08, 0.06, 0.04, 0.08)])
    assert told == ["none", "drift", "drift", "drift", "none", "none"]
    assert (
        outcomes([a_window(one) for one in (FAR, FAR, 0.08)], Policy(at_least=2, of_last=3, release=1.0))[2] == "none"
    )


def test_too_few_rows_decide_nothing_and_change_nothing() -> None:
    few = a_window(FAR, rows=3)
    assert outcomes([few] * 4) == ["undecided"] * 4
    assert outcomes([a_window(FAR), few, a_window(FAR), few, a_window(0.08)]) == [
        "none",
        "undecided",
        "drift",
        "undecided",
        "drift",
    ]
    assert decide([], POLICY).outcome == "undecided"


def test_an_unimportant_column_does_not_alarm_by_itself() -> None:
    unimportant = a_window(FAR, weight=0.01)
    assert outcomes([unimportant] * 3) == ["none"] * 3
    together = a_window(FAR, weight=0.01, others=[Finding("y", "psi", FAR, SURE, 0.015)])
    assert outcomes([together] * 2) == ["none", "drift"]


def test_many_tests_are_corrected_together() -> None:
    crowd = [Finding(f"c{place}", "psi", 0.0, 0.5) for place in range(99)]
    lucky = a_window(FAR, POLICY.alpha * 0.9, others=crowd)
    assert not find_breaches(lucky, POLICY)
    # Negative control: alone the same p-value is enough.
    assert find_breaches(a_window(FAR, POLICY.alpha * 0.9), POLICY)


def test_p_values_are_adjusted_as_benjamini_and_hochberg_say() -> None:
    """Worked by hand: each of n p-values times n over its rank, made monotone from the largest down."""
    assert adjust_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02], abs=1e-15)
    assert adjust_p_values([0.2]) == [0.2]
    assert adjust_p_values([]) == []


def test_the_worst_are_told_first_with_their_numbers() -> None:
    windows = [a_window(0.15, others=[Finding("y", "missing", 0.4, SURE), Finding("z", "js", 0.9, SURE)])] * 2
    told = decide(windows, POLICY)
    assert told.is_drift and told.worst == ("y", "x")
    assert told.reasons[1] == "x: psi 0.15, bound 0.1, p = 1e-09; significantly over it in 2 of 2 windows"
    assert decide([a_window(FAR)], POLICY).reasons == (
        "1 columns significantly over their bounds, but not for long enough or not important enough",
    )


def test_what_is_large_but_may_be_chance_is_told_so() -> None:
    assert decide([a_window(FAR, 0.5)], POLICY).reasons == ("1 columns over their bounds, none of them significantly",)
    assert decide([a_window(0.0, 0.5)], POLICY).reasons == ("nothing drifted",)


def test_a_decision_knows_nothing_of_later_windows() -> None:
    random = np.random.default_rng(4)
    windows = [
        a_window(float(one), rows=int(rows))
        for one, rows in zip(random.random(60) * 0.2, random.integers(0, 9_000, 60), strict=True)
    ]
    daily = [decide(windows[: day + 1], POLICY) for day in range(60)]
    assert list(decide_each(windows, POLICY)) == daily
    assert {"drift", "none", "undecided"} == {one.outcome for one in daily}


def test_a_vanished_column_is_drift_when_it_lasts() -> None:
    gone = Column("x", "numeric", Counts(np.ones(3)), None)
    told = decide([summarize_window("2013-04-01", 5_000, [gone])] * 2, POLICY)
    assert told.reasons == ("x: the column is missing in the window, or has another type",)


def test_windows_of_nothing_are_undecided() -> None:
    nothing = Column("x", "numeric", Counts(np.ones(3)), Counts(np.zeros(3)))
    assert decide([summarize_window("2013-04-01", 0, [nothing])] * 5, POLICY).outcome == "undecided"


@pytest.mark.parametrize(
    "wrong",
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
        {"release": 0},
        {"min_rows": 0},
        {"min_weight": 2},
        {"false_alarms_per_year": 0},
        {"false_alarms_per_year": 200},
    ],
)
def test_a_policy_that_would_guard_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate(wrong)


def test_the_years_false_alarms_are_shared_among_its_windows() -> None:
    assert Policy().alpha == pytest.approx(0.5 / 365)
    assert Policy(false_alarms_per_year=1, windows_per_year=52).alpha == pytest.approx(1 / 52)


def test_deciding_loads_nothing_heavy() -> None:
    code = (
        "import sys, pipelines.monitoring.drift; print([n for n in ('numpy', 'scipy', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
