"""Test that a budget that does not pay for one trial is refused."""

from typing import Any

import pytest

from pipelines.errors import DataError, SpecError
from pipelines.tuning.budget import check_budget, forecast_trial_usd
from pipelines.tuning.plan import PlanSpec


def make_plan(**fields: Any) -> PlanSpec:
    return PlanSpec(space={"eta": [0.1, 0.2]}, instance_type="ml.m5.large", max_trial_s=1_800, **fields)


def test_a_budget_below_one_trial_is_refused() -> None:
    trial_usd = forecast_trial_usd(make_plan(budget_usd=1.0))
    assert trial_usd == pytest.approx(0.115 / 2)
    with pytest.raises(SpecError, match=r"budget_usd 0\.0500 USD is less than the cost of one trial, at most 0\.0575"):
        check_budget(make_plan(budget_usd=0.05))
    check_budget(make_plan(budget_usd=trial_usd))
    check_budget(PlanSpec(space={"eta": [0.1, 0.2]}))  # without a budget, nothing is looked up


def test_an_instance_type_without_a_price_is_refused() -> None:
    plan = PlanSpec(space={"eta": [0.1, 0.2]}, instance_type="ml.m7i.large", budget_usd=1.0)
    with pytest.raises(DataError, match=r"no price is known for ml\.m7i\.large"):
        check_budget(plan)


def test_a_retired_type_is_refused() -> None:
    plan = PlanSpec(space={"eta": [0.1, 0.2]}, instance_type="ml.p3.2xlarge", budget_usd=10.0)
    with pytest.raises(SpecError, match=r"ml\.p3\.2xlarge is retired"):
        check_budget(plan)
