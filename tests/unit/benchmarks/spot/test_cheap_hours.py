"""Test that the rule of cheap hours saves on a year of invented prices, and never starts late."""

import pytest

from benchmarks.spot.cheap_hours import HISTORY_H, Market, simulate_prices, simulate_year

STEP_H = 37 * 3


@pytest.mark.slow
@pytest.mark.parametrize(("step_h", "runs"), [(3 * STEP_H, 25), pytest.param(STEP_H, 75, marks=pytest.mark.soak)])
def test_rule_saves_most_of_what_is_possible_on_a_seeded_year(step_h, runs):
    costs = simulate_year(simulate_prices(Market(), seed=1), slack_h=24, step_h=step_h)
    assert costs.runs > runs
    assert costs.clairvoyant <= costs.by_rule < costs.at_once
    assert costs.saving >= 0.6 * costs.possible_saving
    assert costs.saving > 0.08
    assert costs.longest_wait_h <= 24


@pytest.mark.slow
@pytest.mark.soak
def test_rule_costs_nothing_where_prices_have_no_pattern():
    costs = simulate_year(simulate_prices(Market(daily=0.0, weekly=0.0), seed=1), slack_h=24, step_h=STEP_H)
    assert costs.clairvoyant <= costs.by_rule
    assert -0.005 < costs.saving <= costs.possible_saving


def test_constant_prices_are_no_reason_to_wait():
    constant = Market(daily=0.0, weekly=0.0, noise=0.0, drift=0.0, jumps_per_week=0.0)
    costs = simulate_year(simulate_prices(constant, seed=1), slack_h=24, step_h=24 * 20)
    assert (costs.longest_wait_h, costs.saving) == (0, pytest.approx(0, abs=1e-9))


def test_a_year_repeats_by_its_seed():
    assert simulate_prices(Market(), 1, HISTORY_H) == simulate_prices(Market(), 1, HISTORY_H)
    assert simulate_prices(Market(), 1, HISTORY_H) != simulate_prices(Market(), 2, HISTORY_H)
