"""Test the best commitment against a search, by worked examples, and the hours that it is computed from."""

import datetime as dt
import random

import pytest

from pipelines.costs.commitments.commitment import apply_commitment, choose_commitment, find_commitment
from pipelines.costs.commitments.hours import spread_costs
from tests.unit.pipelines.costs.ledger_rows import BEGIN, HOUR, make_endpoint_row, make_row


def test_steady_use_is_covered_wholly():
    commitment = find_commitment([10.0] * 100, discount=0.3, fall=1 / 3)
    assert commitment.usd_h == pytest.approx(7)
    outcome = commitment.outcome
    assert (outcome.plan_usd, outcome.saved_usd) == (pytest.approx(700), pytest.approx(300))
    assert (outcome.utilization, outcome.coverage) == (pytest.approx(1), pytest.approx(1))
    assert commitment.saved_usd_year == pytest.approx(300 * 87.6)
    # 1000 / 1.5 = 666.67 USD of use on demand, and 700 USD of commitment.
    assert commitment.outcome_if_use_falls.saved_usd == pytest.approx(-33.33, abs=0.01)
    assert commitment.break_even_fall == pytest.approx(0.3)
    assert commitment.backtest.saved_usd == pytest.approx(150)


def test_use_in_few_hours_pays_for_no_commitment():
    commitment = find_commitment([0.0] * 80 + [50.0] * 20, discount=0.3, fall=0.5)
    assert (commitment.usd_h, commitment.outcome.saved_usd, commitment.break_even_fall) == (0, 0, None)
    assert commitment.outcome.utilization is None


@pytest.mark.parametrize("discount", [0.05, 0.2, 0.37, 0.64])
def test_no_other_commitment_costs_less(discount):
    generator = random.Random(7)
    costs = [max(0.0, generator.gauss(5, 4)) for _ in range(500)]
    best = apply_commitment(costs, choose_commitment(costs, discount), discount).plan_usd
    others = [apply_commitment(costs, number / 50, discount).plan_usd for number in range(800)]
    assert best <= min(others) + 1e-9
    assert min(others) == pytest.approx(best, rel=0.001), "the search reaches the optimum"


def test_costs_are_spread_over_the_hours_of_a_row():
    job = make_row("a", BEGIN + HOUR / 2, hours=2, spot=False, cost_usd=4.0)
    assert spread_costs([job], BEGIN, 4) == pytest.approx([1, 2, 1, 0])
    assert spread_costs([job], BEGIN + HOUR, 1) == pytest.approx([2]), "the rest is outside"
    endpoint = make_endpoint_row(BEGIN, hours=3, cost_usd=3.0)
    assert spread_costs([job, endpoint], BEGIN, 4) == pytest.approx([2, 3, 2, 0])


def test_spot_and_serverless_are_not_covered_and_a_job_without_length_is():
    rows = [make_row(), make_endpoint_row(memory_mb=1_024)]
    assert spread_costs(rows, BEGIN, 2) == [0, 0]
    moment = make_row("a", BEGIN, hours=0, spot=False, cost_usd=1.0, ended=BEGIN)
    assert spread_costs([moment], BEGIN - dt.timedelta(hours=1), 3) == pytest.approx([0, 1, 0])
    late = BEGIN - dt.timedelta(milliseconds=1)
    moment = make_row("a", late, hours=0, spot=False, cost_usd=1.0, ended=late)
    assert sum(spread_costs([moment], BEGIN - dt.timedelta(hours=1), 3)) == pytest.approx(1), "no cent is lost"
