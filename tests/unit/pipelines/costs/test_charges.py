"""Test what a job costs and loses, with invented answers of Describe, and each figure against a wrong one."""

import datetime as dt
from typing import Any

import pytest

from pipelines.costs import forecast, report
from pipelines.costs.charges import (
    Charge,
    Job,
    Price,
    RestoredCheckpoint,
    Transition,
    compute_capacity_waits_s,
    compute_charge,
    compute_lost_s,
    format_usd,
    sum_charges,
)
from pipelines.costs.spending import Spending
from pipelines.errors import DataError, SpecError
from pipelines.registry.lineage import build_cost_metrics, build_cost_tags
from pipelines.steps.budget import BudgetSpec
from pipelines.steps.charge import ChargeSpec

BEGIN = dt.datetime(2026, 11, 2, 10, 0, tzinfo=dt.UTC)
PRICE = Price(usd_h=0.36, date=dt.date(2025, 1, 1), source="test")


def compute_moment(second: float) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=second)


def build_job(
    *transitions: tuple[str, float], restored: tuple[tuple[float, float | None], ...] = (), **fields: Any
) -> Job:
    """Build a job whose transitions begin at these seconds."""
    values: dict[str, Any] = {
        "name": "j-1",
        "arn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/j-1",
        "status": "Completed",
        "instance_type": "ml.m5.large",
        "instance_count": 1,
        "spot": True,
        "created": BEGIN,
        "ended": compute_moment(1_000),
        "training_s": 900,
        "billable_s": 300,
        "transitions": [Transition(status=status, start=compute_moment(second)) for status, second in transitions],
        "restored": [
            RestoredCheckpoint(at=compute_moment(a), saved_at=None if b is None else compute_moment(b))
            for a, b in restored
        ],
        **fields,
    }
    return Job(**values)


INTERRUPTED_ONCE = (
    *(("Starting", 0), ("Downloading", 10), ("Training", 20), ("Interrupted", 120)),
    *(("Starting", 125), ("Downloading", 150), ("Training", 160), ("Uploading", 400), ("Completed", 410)),
)


def test_the_cost_is_seconds_times_instances_times_price() -> None:
    charge = compute_charge(build_job(instance_count=3), PRICE)
    assert charge.cost_usd == pytest.approx(300 * 3 * 0.36 / 3_600)
    assert charge.on_demand_usd == pytest.approx(900 * 3 * 0.36 / 3_600)
    assert (charge.price_usd_h, charge.price_date) == (0.36, dt.date(2025, 1, 1))


@pytest.mark.parametrize(("training_s", "billable_s"), [(900, 300), (7, 7), (3, 1), (86_399, 1), (1, 0)])
def test_the_saving_is_that_of_describe_to_the_second(training_s: int, billable_s: int) -> None:
    charge = compute_charge(build_job(training_s=training_s, billable_s=billable_s), PRICE)
    assert charge.saving == 1 - billable_s / training_s
    assert round((1 - charge.saving) * training_s) == billable_s
    assert sum_charges([charge])["saving"] == charge.saving


def test_a_job_that_never_trained_costs_and_saves_nothing() -> None:
    charge = compute_charge(build_job(training_s=0, billable_s=0, started=None, status="Stopped"), PRICE)
    assert (charge.cost_usd, charge.on_demand_usd, charge.saving, charge.interruptions, charge.lost_s) == (
        0,
        0,
        0,
        0,
        0,
    )
    assert charge.capacity_s == 1_000, "the job waited for capacity until it ended"
    assert sum_charges([charge])["saving"] == 0


@pytest.mark.parametrize("status", ["InProgress", "Stopping", ""])
def test_a_job_that_has_not_ended_is_not_charged(status: str) -> None:
    with pytest.raises(DataError, match="only an ended job"):
        compute_charge(build_job(status=status), PRICE)


def test_the_training_after_the_restored_checkpoint_is_lost() -> None:
    charge = compute_charge(build_job(*INTERRUPTED_ONCE, restored=((160, 95),)), PRICE)
    assert (charge.interruptions, charge.lost_s) == (1, 25)


def test_without_a_checkpoint_all_training_before_the_interruption_is_lost() -> None:
    assert compute_lost_s(build_job(*INTERRUPTED_ONCE)) == 100
    assert compute_lost_s(build_job(*INTERRUPTED_ONCE, restored=((160, None),))) == 100
    assert compute_lost_s(build_job(*INTERRUPTED_ONCE, restored=((20, None),))) == 100, (
        "the first start restored nothing"
    )


def test_a_job_without_interruption_loses_nothing() -> None:
    calm = [transition for transition in INTERRUPTED_ONCE if transition[0] != "Interrupted"]
    assert compute_lost_s(build_job(*calm, restored=((20, None),))) == 0
    assert compute_charge(build_job(*calm), PRICE).interruptions == 0


def test_with_a_checkpoint_after_the_interruption_nothing_is_lost() -> None:
    assert compute_lost_s(build_job(*INTERRUPTED_ONCE, restored=((160, 121),))) == 0


INTERRUPTED_TWICE = (
    *INTERRUPTED_ONCE[:7],
    ("Interrupted", 200),
    ("Downloading", 230),
    ("Training", 240),
    ("Completed", 500),
)


def test_each_second_is_lost_once() -> None:
    # The second interruption goes back to the checkpoint before the first: seconds 95 to 120 are lost already.
    assert compute_lost_s(build_job(*INTERRUPTED_TWICE, restored=((160, 95), (240, 95)))) == 25 + 40
    assert compute_lost_s(build_job(*INTERRUPTED_TWICE, restored=((160, 95), (240, 190)))) == 25 + 10
    assert compute_lost_s(build_job(*INTERRUPTED_TWICE)) == 100 + 40
    assert compute_lost_s(build_job(*INTERRUPTED_TWICE, restored=((160, 95),))) == 100 + 40, (
        "the last start restored nothing"
    )


def test_the_order_of_transitions_and_restores_does_not_matter() -> None:
    ordered = build_job(*INTERRUPTED_TWICE, restored=((160, 95), (240, 190)))
    mixed = build_job(*reversed(INTERRUPTED_TWICE), restored=((240, 190), (160, 95)))
    assert compute_charge(ordered, PRICE) == compute_charge(mixed, PRICE)


def test_capacity_waits_are_before_the_first_instances_and_after_each_interruption() -> None:
    assert compute_capacity_waits_s(build_job(*INTERRUPTED_TWICE)) == [10, 30, 30]
    charge = compute_charge(build_job(*INTERRUPTED_TWICE), PRICE)
    assert (charge.capacity_s, charge.first_capacity_s) == (70, 10)
    assert compute_capacity_waits_s(build_job(("Starting", 0), ("Training", 5), ("Interrupted", 50))) == [5, 950], (
        "the job never got instances again"
    )
    assert compute_capacity_waits_s(build_job(("Starting", 0), ended=None)) == []


def build_charge(**fields: Any) -> Charge:
    return compute_charge(build_job(*INTERRUPTED_ONCE, **fields), PRICE)


def test_totals_weigh_the_saving_by_money_where_prices_differ() -> None:
    cheap = compute_charge(build_job(training_s=1_000, billable_s=100), PRICE)
    expensive = compute_charge(build_job(training_s=1_000, billable_s=900), PRICE.model_copy(update={"usd_h": 3.6}))
    total = sum_charges([cheap, expensive])
    assert total["saving"] == pytest.approx(1 - (0.01 + 0.9) / (0.1 + 1.0))
    assert total["saving"] != pytest.approx(0.5), "this would be the saving of seconds"
    assert (total["training_s"], total["billable_s"], total["price_usd_h"]) == (2_000, 1_000, 3.6)


# invalid requests


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instance_count": 0}, "instance_count"),
        ({"billable_s": -1}, "billable_s"),
        ({"created": "2026-11-02T10:00:00"}, "timezone"),
        ({"created": "yesterday"}, "created"),
        ({"colour": "red"}, "unknown key jobs.0.colour"),
        ({"transitions": [{"status": "Training"}]}, "start is missing"),
    ],
)
def test_refuses_an_invalid_job(change: dict[str, Any], message: str) -> None:
    valid = build_job(*INTERRUPTED_ONCE).model_dump(mode="json")
    ChargeSpec.parse({"jobs": [valid], "region": "us-east-1"}, "charge")
    with pytest.raises(SpecError, match=message):
        ChargeSpec.parse({"jobs": [{**valid, **change}], "region": "us-east-1"}, "charge")


def test_refuses_an_empty_list_of_jobs_and_reads_an_empty_moment_as_none() -> None:
    with pytest.raises(SpecError, match="jobs"):
        ChargeSpec.parse({"jobs": [], "region": "us-east-1"}, "charge")
    assert RestoredCheckpoint(at=BEGIN, saved_at="").saved_at is None


@pytest.mark.parametrize("month", ["2026-13", "2026", "26-01", "2026-1", "2026-01-01", "x"])
def test_refuses_an_invalid_month(month: str) -> None:
    fields = {"region": "us-east-1", "instance_types": ["ml.m5.large"], "max_run_s": 60}
    assert BudgetSpec.parse({**fields, "month": "2026-12"}, "budget").month == "2026-12"
    with pytest.raises(SpecError, match="month"):
        BudgetSpec.parse({**fields, "month": month}, "budget")


@pytest.mark.parametrize(
    "change", [{"budget_usd": -1}, {"budget_usd": "nan"}, {"max_run_s": 0}, {"instance_types": []}]
)
def test_refuses_an_invalid_budget(change: dict[str, Any]) -> None:
    fields = {"region": "us-east-1", "instance_types": ["ml.m5.large"], "max_run_s": 60}
    with pytest.raises(SpecError, match=next(iter(change))):
        BudgetSpec.parse({**fields, **change}, "budget")


# report


def build_row(month: int = 11, instance_type: str = "ml.m5.large", **fields: Any) -> dict[str, Any]:
    charge = compute_charge(build_job(instance_type=instance_type, **fields), PRICE).model_dump()
    origin = {"project": "p", "model": "m", "dag_id": "d", "run_id": "r"}
    return {**charge, **origin, "date": dt.date(2026, month, 1)}


def test_groups_add_up_to_the_total() -> None:
    rows = [build_row(10), build_row(11), build_row(11, "ml.c5.xlarge"), build_row(11, instance_count=2)]
    groups = report.group_rows(rows, ["month", "instance_type"])
    assert [(group["month"], group["instance_type"], group["jobs"]) for group in groups] == [
        ("2026-10", "ml.m5.large", 1), ("2026-11", "ml.c5.xlarge", 1), ("2026-11", "ml.m5.large", 2),
    ]  # fmt: skip
    total = report.sum_rows(rows)
    for name in ("jobs", "cost_usd", "on_demand_usd", "saved_usd", "training_h", "lost_s"):
        assert sum(group[name] for group in groups) == pytest.approx(total[name])
    assert total["billable_h"] == pytest.approx(300 * 5 / 3_600), "the hours of two instances count twice"
    assert total["saving"] == pytest.approx(2 / 3)


def test_refuses_unknown_and_empty_keys() -> None:
    assert report.parse_keys("month, model,month") == ["month", "model"]
    for text in ("", " , ", "month,colour"):
        with pytest.raises(SpecError, match="--by"):
            report.parse_keys(text)


def test_many_types_share_the_last_colour_and_no_amount_is_left_out() -> None:
    rows = [build_row(11, f"ml.t{n}.large", billable_s=100 + n) for n in range(9)]
    paid, saved = report._sum_by_month_and_type(rows)
    assert len(paid) == report.MAX_COLORS == len(report.COLORS)
    assert list(paid)[-1] == report.OTHERS
    assert sum(stack["2026-11"] for stack in paid.values()) == pytest.approx(sum(row["cost_usd"] for row in rows))
    assert report.OTHERS not in report._sum_by_month_and_type(rows[:6])[0]
    assert saved["2026-11"] > 0


# forecast


def test_the_cost_of_a_run_is_the_sum_of_its_attempts() -> None:
    rows = [{"run_id": run, "cost_usd": usd} for run, usd in [("a", 1), ("a", 1), ("b", 3), ("c", 10)]]
    cost = forecast.estimate_from_ledger(rows)
    assert cost
    assert (cost.usual_usd, cost.worst_usd) == (3, 10)
    assert "3 past run(s)" in cost.basis
    assert forecast.estimate_from_ledger([]) is None


@pytest.mark.parametrize(
    ("month_usd", "spent", "words"),
    [
        (10.0, 0.0, "enough"),
        (10.0, 4.0, "perhaps not enough"),
        (10.0, 8.0, "not enough"),
        (None, 1.0, "has no monthly budget"),
    ],
)
def test_the_forecast_says_whether_the_budget_is_enough(month_usd: float | None, spent: float, words: str) -> None:
    cost = forecast.RunCost(1.0, 2.0, "basis")
    estimate = forecast.Forecast("d", 4, cost, "p", "2026-11", Spending(spent, 0.0, 0.0), month_usd)
    assert (estimate.usual_usd, estimate.worst_usd) == (4, 8)
    budget = estimate.format_lines()[-1]
    assert f": {words}." in budget if month_usd else words in budget
    assert estimate.to_record()["month_left_usd"] == (None if month_usd is None else 10 - spent)


def test_no_runs_cost_nothing() -> None:
    estimate = forecast.Forecast(
        "d", 0, forecast.RunCost(1.0, 2.0, "basis"), "p", "2026-11", Spending(0.0, 0.0, 0.0), 0.0
    )
    assert (estimate.usual_usd, estimate.worst_usd, estimate.left_usd) == (0, 0, 0)
    assert estimate.format_lines()[-1].endswith(": enough.")


# MLflow


def test_only_numbers_are_metrics() -> None:
    values = {"cost_usd": "0.1", "lost_s": "", "saving": "None", "training_s": "nan", "instance_type": "ml.m5.large"}
    assert build_cost_metrics(values) == {"cost_usd": 0.1}
    assert build_cost_tags({**values, "dag_run": "x"}) == {
        "leeway.cost_usd": "0.1", "leeway.saving": "None", "leeway.training_s": "nan",
        "leeway.instance_type": "ml.m5.large",
    }  # fmt: skip


def test_amounts_are_readable() -> None:
    assert [format_usd(amount) for amount in (0, 0.0042, 1, 1234.567)] == [
        "0.00 USD", "0.0042 USD", "1.00 USD", "1,234.57 USD",
    ]  # fmt: skip
