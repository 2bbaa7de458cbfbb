"""Test that a window is compared with the same weekdays, and with the same weeks of a year ago."""

from datetime import date, timedelta

import numpy as np
import pytest

from pipelines.monitoring.drift.columns import examine_column
from pipelines.monitoring.drift.counts import ComparedColumn, Counts
from pipelines.monitoring.drift.seasonal import reweight, select_same_weeks

DAYS = np.arange(28) % 7
# Weekends differ from workdays.
BINS = np.where(DAYS[:, np.newaxis] < 5, [[800.0, 200]], [[100.0, 300]])
REFERENCE = Counts(BINS, np.zeros(28), DAYS)


def test_a_window_of_a_weekend_is_compared_with_weekends() -> None:
    weekend = Counts(BINS[5:7], np.zeros(2), DAYS[5:7])
    weighted_column = reweight(REFERENCE, weekend)
    assert weighted_column.total[0] / weighted_column.total.sum() == pytest.approx(0.25)
    # Eight days of 400 rows have equal weights, so they count as all their rows.
    assert weighted_column.total.sum() == pytest.approx(8 * 400) and weighted_column.strata.tolist() == [5, 6] * 4
    findings = {
        finding.measure: finding
        for finding in examine_column(ComparedColumn("x", "numeric", REFERENCE, weekend, np.array([0.0])))
    }
    assert findings["psi"].effect == pytest.approx(0, abs=1e-12)
    # Negative control: without weekdays, the same window drifts.
    plain_column = ComparedColumn("x", "numeric", Counts(BINS), Counts(BINS[5:7]), np.array([0.0]))
    assert {finding.measure: finding for finding in examine_column(plain_column)}["psi"].effect > 0.3


def test_unequal_weights_reduce_the_effective_rows() -> None:
    window = Counts(BINS[[0, 5]], np.zeros(2), DAYS[[0, 5]])
    weighted_column = reweight(REFERENCE, window)
    share = (0.8 * 1_000 + 0.25 * 400) / 1_400
    assert weighted_column.total[0] / weighted_column.total.sum() == pytest.approx(share)
    assert weighted_column.total.sum() < 4 * 1_000 + 4 * 400 + 1


def test_the_same_mix_or_an_unknown_weekday_changes_nothing() -> None:
    assert reweight(REFERENCE, Counts(BINS[:7], np.zeros(7), DAYS[:7])) is REFERENCE
    only_workdays = Counts(BINS[:5], np.zeros(5), DAYS[:5])
    assert reweight(only_workdays, Counts(BINS[5:7], np.zeros(2), DAYS[5:7])) is only_workdays
    assert reweight(REFERENCE, Counts(np.zeros((1, 2)))) is REFERENCE
    assert reweight(REFERENCE, Counts(BINS[5:7])) is REFERENCE


def test_the_same_weeks_of_last_year_are_selected_where_there_are_enough() -> None:
    days = [date(2012, 1, 1) + timedelta(days=number) for number in range(366)]
    window = [date(2013, 4, 1) + timedelta(days=number) for number in range(7)]
    chosen_days = [day for day, is_selected in zip(days, select_same_weeks(days, window), strict=True) if is_selected]
    assert (chosen_days[0], chosen_days[-1]) == (date(2012, 3, 19), date(2012, 4, 22))
    assert chosen_days[14].weekday() == window[0].weekday()
    # Negative control: no day is a year old, so all are selected.
    assert select_same_weeks(days[-60:], window).all() and select_same_weeks(days, []).all()
