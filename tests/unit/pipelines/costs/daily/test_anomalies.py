"""Test which days are anomalies, and how often a day is called one that is none."""

import datetime as dt
import random

import pytest

from pipelines.costs.daily.anomalies import FACTOR, WEEKS, estimate_cost, judge_days
from pipelines.costs.daily.days import sum_days, sum_days_by_project
from pipelines.costs.daily.simulation import WORKLOADS, count_false_alarms, measure_power, simulate_costs
from tests.unit.pipelines.costs.ledger_rows import BEGIN, make_endpoint_row, make_row

WEEK = [10.0, 10.0, 10.0, 10.0, 10.0, 1.0, 0.0]
"""Costs from Monday to Sunday."""
WORKLOADS_BY_NAME = {workload.name: workload for workload in WORKLOADS}


def test_weekday_is_compared_with_itself():
    history = WEEK * WEEKS
    assert estimate_cost(history).usd == pytest.approx(10)
    saturday = estimate_cost([*history, *WEEK[:5]])
    assert saturday.usd == pytest.approx(1)
    assert 5 > saturday.limit_usd >= 2, "5 USD are an anomaly on a Saturday, and at least 1 USD more than usual"
    assert estimate_cost(history).limit_usd > 10 * 1.5


def test_weekday_without_costs_is_compared_with_the_days_that_have_some():
    sunday = estimate_cost([*WEEK * WEEKS, *WEEK[:6]])
    assert sunday.usd == pytest.approx(10)
    assert sunday.limit_usd < 30


def test_one_expensive_day_changes_the_limit_little():
    history = WEEK * WEEKS
    outlier_history = [*history[:-7], 10_000.0, *history[-6:]]
    assert estimate_cost(outlier_history).limit_usd == pytest.approx(estimate_cost(history).limit_usd, rel=0.05)


def test_nothing_is_said_without_history():
    assert estimate_cost(WEEK * 3) is None
    assert estimate_cost(WEEK * 4) is not None
    assert estimate_cost([0.0] * 60 + [5.0] * 4) is None, "it is not known what a day costs"
    (day,) = judge_days(sum_days([make_row(cost_usd=1e6)], BEGIN.date()), 1)
    assert (day.usd, day.expected_cost, day.is_anomaly) == (1e6, None, False)


def test_days_are_sums_of_both_ledgers_without_gaps():
    rows = [
        make_row("a", cost_usd=2.0),
        make_endpoint_row(cost_usd=3.0),
        make_row("b", BEGIN + dt.timedelta(days=2), cost_usd=7.0, project="q"),
    ]
    last = BEGIN.date() + dt.timedelta(days=3)
    assert sum_days(rows, last).usd == [5.0, 0.0, 7.0, 0.0]
    assert sum_days(rows, BEGIN.date() - dt.timedelta(days=1)).usd == []
    assert sum_days([], last).usd == []
    by_project = sum_days_by_project(rows, last)
    assert {project: costs.usd for project, costs in by_project.items()} == {"p": [5, 0, 0, 0], "q": [7, 0]}


def test_jump_is_an_anomaly_of_the_day_on_which_it_happened():
    costs = simulate_costs(WORKLOADS_BY_NAME["working days"], 7 * 16, random.Random(1))
    costs[100] *= 8
    rows = [
        make_row(f"j{number}", BEGIN.replace(hour=1) + dt.timedelta(days=number), cost_usd=cost)
        for number, cost in enumerate(costs)
    ]
    series = sum_days(rows, BEGIN.date() + dt.timedelta(days=len(costs) - 1))
    anomalies = [day.day for day in judge_days(series, 28) if day.is_anomaly]
    assert anomalies == [(BEGIN.date() + dt.timedelta(days=100)).isoformat()]


@pytest.mark.slow
@pytest.mark.parametrize("years", [2, pytest.param(6, marks=pytest.mark.soak)])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_false_alarms_are_about_one_a_year_at_most(workload, years):
    assert count_false_alarms(workload, years=years, seed=3) <= 1.5


def test_smaller_factor_gives_more_false_alarms(monkeypatch):
    workload = WORKLOADS_BY_NAME["working days"]
    monkeypatch.setattr("pipelines.costs.daily.anomalies.FACTOR", FACTOR / 2)
    assert count_false_alarms(workload, years=2, seed=3) > 5


def test_large_jumps_are_found_and_usual_days_are_not():
    workload = WORKLOADS_BY_NAME["daily trainings"]
    assert measure_power(workload, 5, trials=40, seed=2) > 0.9
    assert measure_power(workload, 1, trials=40, seed=2) < 0.1
