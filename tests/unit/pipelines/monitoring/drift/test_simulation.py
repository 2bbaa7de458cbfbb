"""Simulate years of 25 columns: false alarms stay at the stated level, and shifts are found within days."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.decisions import drift
from pipelines.monitoring.drift import Policy, columns, decide_each

POLICY = Policy()


@pytest.mark.slow
@pytest.mark.parametrize("years", [3, pytest.param(6, marks=pytest.mark.soak)])
def test_false_alarms_are_at_most_at_the_stated_level(years: int) -> None:
    calm_years = [drift.compute_windows(drift.simulate_year(np.random.default_rng([5, n]))) for n in range(years)]
    assert sum(drift.count_alarms(decide_each(year, POLICY)) for year in calm_years) == 0
    # The p-values keep to the level by themselves, without the bound on the effect and without persistence.
    runs = sum(drift.count_runs(drift.flag_significant_windows(year)) for year in calm_years)
    assert stats.poisson.sf(runs - 1, POLICY.false_alarms_per_year * years) > 0.01
    # Negative control: the same year, with rows taken as independent.
    plain = drift.flag_significant_windows(
        drift.compute_windows(drift.simulate_year(np.random.default_rng([5, 0])), by_day=False)
    )
    assert sum(plain) > 100 * POLICY.false_alarms_per_year


def test_bounds_alone_do_not_prevent_false_alarms_where_days_differ_much() -> None:
    year = drift.simulate_year(np.random.default_rng([5, 0]), day_deviation=0.5)
    by_day, plain = (
        list(decide_each(drift.compute_windows(year, by_day=is_by_day), POLICY)) for is_by_day in (True, False)
    )
    assert drift.count_alarms(by_day) == 0
    # Negative control: the same bounds and persistence, with rows taken as independent.
    assert drift.count_alarms(plain) > 10


@pytest.mark.parametrize(("name", "days"), [("sudden", 10), ("gradual", 35), ("one feature", 10), ("stuck sensor", 4)])
def test_planted_shifts_are_found(name: str, days: int) -> None:
    year = drift.simulate_year(np.random.default_rng([6, 1]), drift.DRIFTS[name])
    decisions = list(decide_each(drift.compute_windows(year), POLICY))
    delay = drift.measure_delay(decisions)
    assert delay is not None and delay <= days
    # There is no alarm before the shift.
    assert drift.count_alarms(decisions[: drift.DRIFT_START - drift.WINDOW_DAYS]) == 0
    assert decisions[-1].is_drift


def test_the_shifted_column_is_the_worst() -> None:
    for name, column in (("one feature", "x3"), ("stuck sensor", "x7")):
        decisions = list(
            decide_each(
                drift.compute_windows(drift.simulate_year(np.random.default_rng([6, 2]), drift.DRIFTS[name])), POLICY
            )
        )
        assert decisions[-1].drifted_columns == (column,)


def test_the_simulation_agrees_with_examine_column() -> None:
    year = drift.simulate_year(np.random.default_rng([6, 3]), drift.shift_suddenly)
    last = drift.compute_windows(year)[-1]
    reference_days = np.arange(drift.REFERENCE_DAYS)
    window_days = np.arange(drift.REFERENCE_DAYS + drift.DAYS - drift.WINDOW_DAYS, drift.REFERENCE_DAYS + drift.DAYS)
    expected = {(finding.column, finding.measure): finding for finding in last.findings}
    for number in range(drift.COLUMNS):
        for finding in columns.examine_column(drift.build_column(year, number, reference_days, window_days)):
            simulated_finding = expected.get((finding.column, finding.measure))
            if simulated_finding and simulated_finding.effect is not None:
                # Not equal to the last digit: examined columns are reweighted to the window's mix of weekdays.
                assert finding.effect == pytest.approx(simulated_finding.effect, rel=0.1, abs=5e-4)
                assert finding.p_value == pytest.approx(simulated_finding.p_value, rel=0.3, abs=0.02)
