"""Test how a request for a recommendation is built."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.errors import DataError
from pipelines.planning.recommendation.inputs import PlanInputs, build_request
from pipelines.planning.recommendation.limits import Limits
from tests.tools.ledger_rows import make_row

REGION = "us-east-1"


@pytest.fixture(autouse=True)
def prices(home: Path) -> None:
    """Use the prices of the package."""


@pytest.mark.parametrize(
    ("allow", "types"),
    [
        (["ml.*"], set()),
        (["ml.t*"], set()),  # matches ml.t3, too
        (["ml.trn1.*"], {"ml.trn1.2xlarge", "ml.trn1.32xlarge"}),
        (["ml.g5.*", "ml.trn1.2xlarge"], {"ml.trn1.2xlarge"}),
        (["ml.*", "ml.trn1.2xlarge"], {"ml.trn1.2xlarge"}),
        (["ml.g5.*", "ml.[a-z]5.large", "ml.*5.4xlarge"], set()),
    ],
)
def test_trainium_is_possible_if_a_pattern_names_it_explicitly(allow: list[str], types: set[str]) -> None:
    inputs = PlanInputs([REGION], parameters=1e9, tokens=1e8, allow=allow)
    assert build_request(inputs, Limits(), []).neuron_types == types


def test_trainium_is_possible_if_past_jobs_ran_on_it() -> None:
    inputs = PlanInputs([REGION], past_jobs_of="flights", allow=["ml.*"])
    rows = [make_row(instance_type="ml.trn1.2xlarge")]
    assert "ml.trn1.32xlarge" in build_request(inputs, Limits(), rows).neuron_types
    assert not build_request(inputs, Limits(), [make_row()]).neuron_types


def test_the_plan_of_a_past_day_uses_only_jobs_that_had_ended() -> None:
    day = dt.date(2026, 9, 3)  # make_row's jobs are created at midnight, from 2026-09-01 on
    night, next_day = (dt.datetime(2026, 9, 3, 23, 59, tzinfo=dt.UTC), dt.datetime(2026, 9, 4, tzinfo=dt.UTC))
    rows = [
        make_row(0, training_s=1_000),
        make_row(1, training_s=1_100, ended=night),
        make_row(2, training_s=7_000, ended=next_day),  # ran at midnight: its time was not known on that day
        make_row(3, training_s=8_000),
        {**make_row(4), "created": None},
    ]
    inputs = PlanInputs([REGION], past_jobs_of="flights", allow=["ml.m5.*"], as_of=day)
    request = build_request(inputs, Limits(), rows)
    assert request.workload.describe().startswith("flights: 2 past job(s) of 1,050 s")
    assert len(request.observations) == 1
    assert request.quotes == build_request(inputs, Limits(), rows[:2]).quotes
    later = replace(inputs, as_of=dt.date(2026, 9, 4))
    assert "4 past job(s)" in build_request(later, Limits(), rows).workload.describe()
    with pytest.raises(DataError, match=r"no completed training of flights until 2026-08-31 with .* \(no row\)"):
        build_request(replace(inputs, as_of=dt.date(2026, 8, 31)), Limits(), rows)
