"""Test what stated commitments cover: worked examples of AWS's rules, and the same sums by another computation."""

import datetime as dt
import random

import pytest

from pipelines.costs.commitments.commitment import apply_commitment
from pipelines.costs.commitments.coverage import UncoveredUse, cover_costs, cover_hour
from pipelines.costs.commitments.hours import spread_costs
from pipelines.costs.commitments.stated import StatedCommitment
from tests.unit.pipelines.costs.ledger_rows import BEGIN, HOUR, make_endpoint_row, make_row

DAY = dt.timedelta(days=1)
MIDNIGHT = BEGIN.replace(hour=0)
PLAN = StatedCommitment(usd_h=7.0, term="1y", begin=BEGIN.date(), discount=0.3)
"""It covers 10 USD an hour."""


def find_discount(commitment, _):
    return commitment.discount


def make_job(name="a", created=BEGIN, hours=1.0, cost_usd=10.0, **fields):
    """Return the row of a job on demand."""
    return make_row(name, created, hours, spot=False, cost_usd=cost_usd, **fields)


def cover(*rows, commitments=(PLAN,), find_saving=find_discount, now=MIDNIGHT + DAY):
    return cover_costs(rows, commitments, find_saving, now)


@pytest.mark.parametrize(("usd", "covered_usd", "used_usd"), [(20.0, 10.0, 7.0), (10.0, 10.0, 7.0), (5.0, 5.0, 3.5)])
def test_commitment_covers_its_amount_at_the_rate_of_the_plan(usd, covered_usd, used_usd):
    coverage = cover(make_job(cost_usd=usd))
    assert coverage.reserved_usd == pytest.approx([covered_usd])
    assert coverage.committed_usd == {"2026-11": 24 * 7}
    assert coverage.unused_usd == pytest.approx({"2026-11": 24 * 7 - used_usd})


def test_what_an_hour_does_not_use_is_lost():
    jobs = make_job("a", cost_usd=30.0), make_job("b", BEGIN + 2 * HOUR, cost_usd=1.0)
    coverage = cover(*jobs)
    assert coverage.reserved_usd == pytest.approx([10, 1])
    assert coverage.unused_usd["2026-11"] == pytest.approx(22 * 7 + 7 - 0.7)


def test_totals_of_a_job_are_spread_over_its_hours():
    job = make_job(created=BEGIN + HOUR / 2, hours=2, cost_usd=40.0)  # 10, 20 and 10 USD
    assert cover(job).reserved_usd == pytest.approx([30])
    assert cover(job, make_endpoint_row(hours=3, cost_usd=30.0)).reserved_usd == pytest.approx(
        [5 + 20 / 3 + 5, 5 + 10 / 3 + 5]
    )


def test_spot_and_serverless_are_never_covered():
    coverage = cover(make_row(cost_usd=5.0), make_endpoint_row(memory_mb=1_024, cost_usd=5.0))
    assert coverage.reserved_usd == [0, 0]
    assert coverage.unused_usd == coverage.committed_usd


def test_highest_saving_is_covered_first_then_the_lowest_rate_then_equal_shares():
    dear, cheap, saver = UncoveredUse(0, 10.0, 0.3, 2.0), UncoveredUse(1, 4.0, 0.3, 1.0), UncoveredUse(2, 2.0, 0.5, 5.0)
    covered_usd, used_usd = cover_hour([dear, cheap, saver], 4.5)
    # 1 USD pays for 2 of the saver, 2.80 for 4 of the cheap one, and 0.70 for 1 of the dear one.
    assert covered_usd == pytest.approx({0: 1, 1: 4, 2: 2})
    assert used_usd == pytest.approx(4.5)
    covered_usd, used_usd = cover_hour([UncoveredUse(0, 30.0, 0.3, 1.0), UncoveredUse(1, 10.0, 0.3, 1.0)], 7.0)
    assert covered_usd == pytest.approx({0: 7.5, 1: 2.5})
    assert cover_hour([], 7.0) == ({}, 0)


def test_saving_of_an_instance_type_decides_what_is_covered():
    jobs = make_job("a", instance_type="ml.p4d.24xlarge"), make_job("b", instance_type="ml.m5.large")
    savings = {"ml.p4d.24xlarge": 0.3, "ml.m5.large": 0.5}
    coverage = cover(*jobs, find_saving=lambda _, row: savings[row["instance_type"]])
    assert coverage.reserved_usd == pytest.approx([2 / 0.7, 10]), "5 USD pay for m5, and 2 are left"


def test_term_of_a_commitment_is_kept():
    plan = PLAN.model_copy(update={"begin": BEGIN.date() - 365 * DAY})
    assert plan.end == BEGIN.date()
    jobs = make_job("a", MIDNIGHT - HOUR), make_job("b", MIDNIGHT)
    coverage = cover(*jobs, commitments=[plan])
    assert coverage.reserved_usd == [10, 0]
    assert coverage.unused_usd == {"2026-11": 23 * 7}, "not from the days before the first row in the ledgers on"
    assert cover(*jobs).reserved_usd == [0, 10], "not before it begins"


def test_unused_commitment_is_counted_up_to_yesterday():
    assert cover(make_job(), now=BEGIN + HOUR).unused_usd == {}
    months = cover(make_job(cost_usd=0.0), now=dt.datetime(2026, 12, 3, 5, tzinfo=dt.UTC)).unused_usd
    assert months == {"2026-11": 29 * 24 * 7, "2026-12": 2 * 24 * 7}
    assert cover(now=BEGIN).unused_usd == {}


def test_two_commitments_cover_the_same_use_once_the_oldest_first():
    old = StatedCommitment(usd_h=5.0, term="3y", begin=BEGIN.date() - DAY, discount=0.5)
    coverage = cover(make_job(cost_usd=12.0), commitments=[PLAN, old])
    assert coverage.reserved_usd == pytest.approx([12])
    # The old one pays for 10 USD, and the new one, at 0.7 USD, for 2.
    assert coverage.unused_usd["2026-11"] == pytest.approx(24 * 12 - 5 - 1.4)


def test_row_without_a_known_saving_is_not_known_and_not_zero():
    old = StatedCommitment(usd_h=5.0, term="3y", begin=BEGIN.date() - DAY)
    later = old.model_copy(update={"begin": BEGIN.date() + DAY})
    assert cover(make_job(), commitments=[old]).reserved_usd == [None]
    assert cover(make_row(), commitments=[old]).reserved_usd == [0], "spot"
    assert cover(make_job(), commitments=[later]).reserved_usd == [0], "before its term"
    assert cover(make_job(), commitments=[old, PLAN]).reserved_usd == [None], "how much the old one covers"
    oldest = PLAN.model_copy(update={"begin": BEGIN.date() - 2 * DAY})
    assert cover(make_job(), commitments=[old, oldest]).reserved_usd == pytest.approx([10]), "nothing is left for it"


@pytest.mark.parametrize("usd_h", [0.5, 2.0, 9.0])
def test_sums_are_those_of_the_best_commitment_report(usd_h):
    generator = random.Random(21)
    jobs = [
        make_job(
            f"j{number}",
            MIDNIGHT + generator.random() * 8 * DAY,
            generator.choice([0.1, 1.0, 7.5, 30.0]),
            cost_usd=generator.expovariate(0.05),
            price_usd_h=generator.choice([1.0, 2.0]),
        )
        for number in range(60)
    ]
    rows = [row | {"spot": generator.random() < 0.2} for row in jobs]
    now = MIDNIGHT + 12 * DAY
    plan = PLAN.model_copy(update={"usd_h": usd_h, "begin": min(row["created"] for row in rows).date()})
    coverage = cover(*rows, commitments=[plan], now=now)
    begin = dt.datetime.combine(plan.begin, dt.time(), dt.UTC)
    costs = spread_costs(rows, begin, (now - begin) // HOUR)
    outcome = apply_commitment(costs, usd_h, 0.3)
    assert sum(coverage.reserved_usd) == pytest.approx(outcome.coverage * sum(costs))
    assert sum(coverage.unused_usd.values()) == pytest.approx((1 - outcome.utilization) * usd_h * len(costs))
