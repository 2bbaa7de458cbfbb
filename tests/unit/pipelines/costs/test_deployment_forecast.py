"""Test the forecast of a deployment, and its comparison with the budget of a project that has other endpoints."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from pipelines.costs.deployment_forecast import PlannedDeployment, forecast_deployment
from pipelines.costs.endpoints.fleets import Fleet
from pipelines.costs.endpoints.running import RunningFleet, get_month_bounds
from pipelines.errors import SpecError

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
"""240 hours before the end of the month."""


def make_running(
    endpoint: str = "other", project: str = "flights", usd_h: float = 0.1, hours: float = 0
) -> RunningFleet:
    """Return a fleet that was metered some hours before NOW."""
    fleet = Fleet("us-east-1", endpoint, "c", "AllTraffic", "ml.m5.large", project=project)
    return RunningFleet(fleet, NOW - dt.timedelta(hours=hours), usd_h)


def forecast(*running: RunningFleet, **fields: Any) -> Any:
    common = {"region": "us-east-1", "endpoint": "boats", "instance_type": "ml.m5.large", "project": "flights"}
    return forecast_deployment(PlannedDeployment(**{**common, **fields}), running, NOW)


@pytest.mark.usefixtures("home")
def test_costs_until_the_end_of_the_month_and_in_a_full_month() -> None:
    result = forecast(instance_count=2)
    assert (result.usd_h, result.full_month_usd, result.rest_of_month_usd) == (0.23, 167.9, pytest.approx(240 * 0.23))
    assert (result.allowed, result.month_budget_usd) == (True, None)
    assert (result.month, result.price_date) == ("2026-11", "2025-01-01")
    assert "2 x ml.m5.large at 0.115 USD/h for 730 h, is 167.90 USD" in result.reason


@pytest.mark.usefixtures("home")
def test_present_instances_run_beside_the_new_ones_during_the_release() -> None:
    result = forecast(make_running("boats", usd_h=0.3, hours=10), release_s=7_200)
    assert result.release_usd == pytest.approx(0.6)
    assert result.rest_of_month_usd == pytest.approx(240 * 0.115 + 0.6)
    assert (result.others_full_month_usd, result.month_spent_usd) == (0, pytest.approx(3.0)), "it is no other endpoint"
    assert forecast(release_s=7_200).release_usd == 0, "a new endpoint has no present instances"
    assert forecast(make_running("boats", "trains"), release_s=7_200).release_usd == 0


@pytest.mark.usefixtures("home")
def test_other_endpoints_of_the_project_count_and_those_of_others_do_not() -> None:
    full_usd, rest_usd = 730 * 0.115, 240 * 0.115
    other = make_running(usd_h=0.2, hours=24)
    enough_usd = max(full_usd + 730 * 0.2, rest_usd + 264 * 0.2)
    assert forecast(other, month_usd=enough_usd).allowed
    refused = forecast(other, month_usd=enough_usd - 0.01)
    assert not refused.allowed and "of which other endpoints cost 146.00 USD" in refused.reason
    assert refused.others_rest_of_month_usd == pytest.approx(264 * 0.2)
    assert forecast(make_running(project="trains"), month_usd=full_usd).allowed, "another project pays for it"
    assert not forecast(month_usd=full_usd - 0.01).allowed


@pytest.mark.usefixtures("home")
def test_rest_of_the_month_must_fit_beside_what_is_spent() -> None:
    # The present endpoint cost 60 USD that are not metered yet. A full month fits, the rest of this one does not.
    present = make_running("boats", usd_h=0.25, hours=240)
    refused = forecast(present, month_usd=85)
    assert not refused.allowed and "the rest of 2026-11, 27.60 USD, is more than the 25.00 USD left" in refused.reason
    assert forecast(present, month_usd=87.6).allowed


def test_month_bounds(home: Path) -> None:
    assert [moment.isoformat() for moment in get_month_bounds("2026-12")] == [
        "2026-12-01T00:00:00+00:00",
        "2027-01-01T00:00:00+00:00",
    ]
    running = make_running(usd_h=1.0, hours=0)
    assert running.compute_cost_usd("2026-11") == 240
    assert running.compute_cost_usd("2026-12") == 31 * 24
    assert running.compute_cost_usd("2026-10") == 0, "the past is not charged"


@pytest.mark.usefixtures("home")
def test_a_serverless_endpoint_costs_what_its_load_costs() -> None:
    serverless = {"instance_type": "", "serverless_memory_mb": 2_048, "serverless_load": 0.25}
    result = forecast(month_usd=30, **serverless)
    assert (result.price_usd_h, result.usd_h) == (0.072, 0.036)  # 0.00002 USD a second and GB
    assert (result.full_month_usd, result.rest_of_month_usd, result.release_usd) == (26.28, 8.64, 0)
    assert result.allowed
    assert "2 GB at 0.072 USD/h and GB with 0.25 request(s) at a time on average for 730 h" in result.reason
    assert not forecast(month_usd=30, **{**serverless, "serverless_load": 0.5}).allowed


def test_a_retired_type_is_refused_with_its_successor() -> None:
    with pytest.raises(SpecError, match=r"ml.p3.2xlarge is retired. Use ml.g5.2xlarge"):
        forecast(instance_type="ml.p3.2xlarge")


def test_a_deployment_has_instances_or_memory() -> None:
    for fields in ({}, {"instance_type": "ml.m5.large", "serverless_memory_mb": 1_024}):
        with pytest.raises(ValueError, match="either instance_type or serverless_memory_mb"):
            PlannedDeployment.model_validate({"region": "us-east-1", "endpoint": "boats", **fields})
