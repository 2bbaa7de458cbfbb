"""What a job cost and lost, by hand-made answers of Describe; each figure beside the one that it must not be."""

import datetime as dt
from typing import Any

import pytest

from pipelines.costs import forecast, report
from pipelines.costs.charges import (
    Charge,
    Job,
    Price,
    Restored,
    Transition,
    compute_capacity_waits_s,
    compute_charge,
    compute_lost_s,
    format_usd,
    sum_charges,
)
from pipelines.errors import DataError, SpecError
from pipelines.registry.lineage import build_cost_metrics, build_cost_tags
from pipelines.steps.budget import BudgetSpec
from pipelines.steps.charge import ChargeSpec

BEGIN = dt.datetime(2026, 11, 2, 10, 0, tzinfo=dt.UTC)
PRICE = Price(usd_h=0.36, date=dt.date(2025, 1, 1), source="test")


def at(second: float) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=second)


def job(*words: tuple[str, float], restored: tuple[tuple[float, float | None], ...] = (), **fields: Any) -> Job:
    """A job whose transitions begin at those seconds."""
    given: dict[str, Any] = {
        "name": "j-1",
        "arn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/j-1",
        "status": "Completed",
        "instance_type": "ml.m5.large",
        "instance_count": 1,
        "spot": True,
        "created": BEGIN,
        "ended": at(1_000),
        "training_s": 900,
        "billable_s": 300,
        "transitions": [Transition(status=word, start=at(second)) for word, second in words],
        "restored": [Restored(at=at(a), saved_at=None if b is None else at(b)) for a, b in restored],
        **fields,
    }
    return Job(**given)


ONCE = (
    *(("Starting", 0), ("Downloading", 10), ("Training", 20), ("Interrupted", 120)),
    *(("Starting", 125), ("Downloading", 150), ("Training", 160), ("Uploading", 400), ("Completed", 410)),
)


def test_money_is_seconds_times_instances_times_price() -> None:
    told = compute_charge(job(instance_count=3), PRICE)
    assert told.cost_usd == pytest.approx(300 * 3 * 0.36 / 3_600)
    assert told.on_demand_usd == pytest.approx(900 * 3 * 0.36 / 3_600)
    assert (told.price_usd_h, told.price_date) == (0.36, dt.date(2025, 1, 1))


@pytest.mark.parametrize(("training_s", "billable_s"), [(900, 300), (7, 7), (3, 1), (86_399, 1), (1, 0)])
def test_the_saving_is_that_of_describe_to_the_second(training_s: int, billable_s: int) -> None:
    told = compute_charge(job(training_s=training_s, billable_s=billable_s), PRICE)
    assert told.saving == 1 - billable_s / training_s
    assert round((1 - told.saving) * training_s) == billable_s
    assert sum_charges([told])["saving"] == told.saving


def test_a_job_that_never_trained_costs_and_saves_nothing() -> None:
    told = compute_charge(job(training_s=0, billable_s=0, started=None, status="Stopped"), PRICE)
    assert (told.cost_usd, told.on_demand_usd, told.saving, told.interruptions, told.lost_s) == (0, 0, 0, 0, 0)
    assert told.capacity_s == 1_000, "it waited in vain until it ended"
    assert sum_charges([told])["saving"] == 0


@pytest.mark.parametrize("status", ["InProgress", "Stopping", ""])
def test_what_has_not_ended_is_not_charged(status: str) -> None:
    with pytest.raises(DataError, match="only an ended job"):
        compute_charge(job(status=status), PRICE)


def test_lost_is_what_was_trained_since_the_checkpoint_that_was_restored() -> None:
    told = compute_charge(job(*ONCE, restored=((160, 95),)), PRICE)
    assert (told.interruptions, told.lost_s) == (1, 25)


def test_without_a_checkpoint_all_training_so_far_is_lost() -> None:
    assert compute_lost_s(job(*ONCE)) == 100
    assert compute_lost_s(job(*ONCE, restored=((160, None),))) == 100
    assert compute_lost_s(job(*ONCE, restored=((20, None),))) == 100, "the first start restored nothing"


def test_a_job_without_interruption_loses_nothing() -> None:
    calm = [one for one in ONCE if one[0] != "Interrupted"]
    assert compute_lost_s(job(*calm, restored=((20, None),))) == 0
    assert compute_charge(job(*calm), PRICE).interruptions == 0


def test_a_checkpoint_of_after_the_interruption_loses_nothing_and_never_less() -> None:
    assert compute_lost_s(job(*ONCE, restored=((160, 121),))) == 0


TWICE = (*ONCE[:7], ("Interrupted", 200), ("Downloading", 230), ("Training", 240), ("Completed", 500))


def test_each_second_is_lost_once() -> None:
    # The second interruption goes back to the checkpoint of before the first: 95..120 is lost already.
    assert compute_lost_s(job(*TWICE, restored=((160, 95), (240, 95)))) == 25 + 40
    assert compute_lost_s(job(*TWICE, restored=((160, 95), (240, 190)))) == 25 + 10
    assert compute_lost_s(job(*TWICE)) == 100 + 40
    assert compute_lost_s(job(*TWICE, restored=((160, 95),))) == 100 + 40, "begun anew after the second: all is lost"


def test_the_order_of_transitions_and_restores_does_not_matter() -> None:
    ordered = job(*TWICE, restored=((160, 95), (240, 190)))
    mixed = job(*reversed(TWICE), restored=((240, 190), (160, 95)))
    assert compute_charge(ordered, PRICE) == compute_charge(mixed, PRICE)


def test_waits_are_for_the_first_instances_and_after_each_interruption() -> None:
    assert compute_capacity_waits_s(job(*TWICE)) == [10, 30, 30]
    told = compute_charge(job(*TWICE), PRICE)
    assert (told.capacity_s, told.first_capacity_s) == (70, 10)
    assert compute_capacity_waits_s(job(("Starting", 0), ("Training", 5), ("Interrupted", 50))) == [5, 950], (
        "it had none again"
    )
    assert compute_capacity_waits_s(job(("Starting", 0), ended=None)) == []


def charged(**fields: Any) -> Charge:
    return compute_charge(job(*ONCE, **fields), PRICE)


def test_totals_weigh_the_saving_by_money_where_prices_differ() -> None:
    cheap = compute_charge(job(training_s=1_000, billable_s=100), PRICE)
    dear = compute_charge(job(training_s=1_000, billable_s=900), PRICE.model_copy(update={"usd_h": 3.6}))
    told = sum_charges([cheap, dear])
    assert told["saving"] == pytest.approx(1 - (0.01 + 0.9) / (0.1 + 1.0))
    assert told["saving"] != pytest.approx(0.5), "seconds alone would say so"
    assert (told["training_s"], told["billable_s"], told["price_usd_h"]) == (2_000, 1_000, 3.6)


# what is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"instance_count": 0}, "instance_count"),
        ({"billable_s": -1}, "billable_s"),
        ({"created": "2026-11-02T10:00:00"}, "timezone"),
        ({"created": "yesterday"}, "created"),
        ({"colour": "red"}, "unknown key jobs.0.colour"),
        ({"transitions": [{"status": "Training"}]}, "start is missing"),
    ],
)
def test_a_job_that_is_none_is_refused(change: dict[str, Any], said: str) -> None:
    good = job(*ONCE).model_dump(mode="json")
    ChargeSpec.parse({"jobs": [good], "region": "us-east-1"}, "charge")
    with pytest.raises(SpecError, match=said):
        ChargeSpec.parse({"jobs": [{**good, **change}], "region": "us-east-1"}, "charge")


def test_no_job_is_refused_and_empty_moments_are_none() -> None:
    with pytest.raises(SpecError, match="jobs"):
        ChargeSpec.parse({"jobs": [], "region": "us-east-1"}, "charge")
    assert Restored(at=BEGIN, saved_at="").saved_at is None


@pytest.mark.parametrize("month", ["2026-13", "2026", "26-01", "2026-1", "2026-01-01", "x"])
def test_a_month_that_is_none_is_refused(month: str) -> None:
    fields = {"region": "us-east-1", "instance_types": ["ml.m5.large"], "max_run_s": 60}
    assert BudgetSpec.parse({**fields, "month": "2026-12"}, "budget").month == "2026-12"
    with pytest.raises(SpecError, match="month"):
        BudgetSpec.parse({**fields, "month": month}, "budget")


@pytest.mark.parametrize(
    "change", [{"budget_usd": -1}, {"budget_usd": "nan"}, {"max_run_s": 0}, {"instance_types": []}]
)
def test_a_budget_that_is_none_is_refused(change: dict[str, Any]) -> None:
    fields = {"region": "us-east-1", "instance_types": ["ml.m5.large"], "max_run_s": 60}
    with pytest.raises(SpecError, match=next(iter(change))):
        BudgetSpec.parse({**fields, **change}, "budget")


# report


def row(month: int = 11, instance_type: str = "ml.m5.large", **fields: Any) -> dict[str, Any]:
    made = compute_charge(job(instance_type=instance_type, **fields), PRICE).model_dump()
    whose = {"project": "p", "model": "m", "dag_id": "d", "run_id": "r"}
    return {**made, **whose, "date": dt.date(2026, month, 1)}


def test_groups_add_up_to_the_total() -> None:
    rows = [row(10), row(11), row(11, "ml.c5.xlarge"), row(11, instance_count=2)]
    groups = report.group_rows(rows, ["month", "instance_type"])
    assert [(one["month"], one["instance_type"], one["jobs"]) for one in groups] == [
        ("2026-10", "ml.m5.large", 1), ("2026-11", "ml.c5.xlarge", 1), ("2026-11", "ml.m5.large", 2),
    ]  # fmt: skip
    total = report.sum_rows(rows)
    for name in ("jobs", "cost_usd", "on_demand_usd", "saved_usd", "training_h", "lost_s"):
        assert sum(one[name] for one in groups) == pytest.approx(total[name])
    assert total["billable_h"] == pytest.approx(300 * 5 / 3_600), "hours of instances, so two count twice"
    assert total["saving"] == pytest.approx(2 / 3)


def test_keys_that_are_unknown_or_none_are_refused() -> None:
    assert report.parse_keys("month, model,month") == ["month", "model"]
    for text in ("", " , ", "month,colour"):
        with pytest.raises(SpecError, match="--by"):
            report.parse_keys(text)


def test_many_types_share_the_last_colour_and_no_amount_is_left_out() -> None:
    rows = [row(11, f"ml.t{n}.large", billable_s=100 + n) for n in range(9)]
    paid, saved = report._stacks(rows)
    assert len(paid) == report.SHOWN == len(report.COLOURS)
    assert list(paid)[-1] == report.OTHERS
    assert sum(stack["2026-11"] for stack in paid.values()) == pytest.approx(sum(one["cost_usd"] for one in rows))
    assert report.OTHERS not in report._stacks(rows[:6])[0]
    assert saved["2026-11"] > 0


# forecast


def test_a_run_costs_what_its_attempts_cost_together() -> None:
    rows = [{"run_id": run, "cost_usd": cost} for run, cost in [("a", 1), ("a", 1), ("b", 3), ("c", 10)]]
    told = forecast.estimate_from_ledger(rows)
    assert told
    assert (told.usual_usd, told.worst_usd) == (3, 10)
    assert "3 past run(s)" in told.basis
    assert forecast.estimate_from_ledger([]) is None


@pytest.mark.parametrize(
    ("month_usd", "spent", "said"),
    [
        (10.0, 0.0, "enough"),
        (10.0, 4.0, "perhaps not enough"),
        (10.0, 8.0, "not enough"),
        (None, 1.0, "has no monthly budget"),
    ],
)
def test_the_forecast_says_whether_the_budget_is_enough(month_usd: float | None, spent: float, said: str) -> None:
    cost = forecast.RunCost(1.0, 2.0, "basis")
    told = forecast.Forecast("d", 4, cost, "p", "2026-11", spent, month_usd)
    assert (told.usual_usd, told.worst_usd) == (4, 8)
    budget = told.lines()[-1]
    assert f": {said}." in budget if month_usd else said in budget
    assert told.record()["month_left_usd"] == (None if month_usd is None else 10 - spent)


def test_no_runs_cost_nothing() -> None:
    told = forecast.Forecast("d", 0, forecast.RunCost(1.0, 2.0, "basis"), "p", "2026-11", 0.0, 0.0)
    assert (told.usual_usd, told.worst_usd, told.left_usd) == (0, 0, 0)
    assert told.lines()[-1].endswith(": enough.")


# MLflow


def test_only_numbers_are_metrics() -> None:
    told = {"cost_usd": "0.1", "lost_s": "", "saving": "None", "training_s": "nan", "instance_type": "ml.m5.large"}
    assert build_cost_metrics(told) == {"cost_usd": 0.1}
    assert build_cost_tags({**told, "dag_run": "x"}) == {
        "leeway.cost_usd": "0.1", "leeway.saving": "None", "leeway.training_s": "nan",
        "leeway.instance_type": "ml.m5.large",
    }  # fmt: skip


def test_amounts_for_people() -> None:
    assert [format_usd(amount) for amount in (0, 0.0042, 1, 1234.567)] == [
        "0.00 USD", "0.0042 USD", "1.00 USD", "1,234.57 USD",
    ]  # fmt: skip
