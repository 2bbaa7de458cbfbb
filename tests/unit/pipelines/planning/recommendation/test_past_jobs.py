"""Test which rows of the ledger count as past jobs, and what their figures are."""

import datetime as dt
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.planning.recommendation.choice.choose import choose
from pipelines.planning.recommendation.inputs import PlanInputs, build_request
from pipelines.planning.recommendation.limits import Limits
from pipelines.planning.recommendation.past_jobs import is_usable
from pipelines.planning.recommendation.recommend import recommend
from pipelines.planning.recommendation.report import format_lines
from pipelines.steps.choose_instance import ChooseInstanceSpec
from tests.tools.ledger_rows import make_row

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
USE = {"cpu_mean": 700, "memory_peak": 5}
GAPS = [
    *((name, None) for name in ("interruptions", "cost_usd", "instance_count", "on_demand_usd", "training_s")),
    *((name, None) for name in ("instance_type", "status", "spot")),
    *(("training_s", value) for value in (-3_600, 0, math.nan, math.inf)),
    *((name, -1) for name in ("interruptions", "cost_usd", "instance_count", "on_demand_usd")),
    *((name, math.nan) for name in ("cost_usd", "on_demand_usd")),
    ("instance_count", 0),
]
"""Columns with a value with which a row is left out."""
ODD_FIGURES = [
    *(("uncorrected_s", value) for value in (-1.0, math.nan, math.inf)),
    *(("uncorrected_usd", value) for value in (-1.0, math.nan)),
    *((name, value) for name in ("saving", "price_usd_h", "first_capacity_s") for value in (None, math.nan)),
    *((name, value) for name in ("first_capacity_s", "lost_s") for value in (-5.0, math.inf)),
    *((name, math.nan) for name in ("cpu_mean", "memory_peak")),
    *((name, None) for name in ("region", "model", "arn", "prediction_basis")),
]
"""Columns with a value that is not known, in a row whose other figures count."""


@pytest.fixture(autouse=True)
def prices(home: Path) -> None:
    """Use the prices of the package."""


def plan(rows: list[dict[str, Any]]) -> Any:
    inputs = PlanInputs(["us-east-1"], past_jobs_of="flights", allow=["ml.m5.*"])
    return recommend(build_request(inputs, Limits(), rows))


def make_rows(**fields: Any) -> list[dict[str, Any]]:
    """Return six complete rows of spot jobs, and, as the newest one, another with the given fields."""
    rows = [make_row(n, spot=True, saving=0.7, first_capacity_s=60.0, **USE) for n in range(6)]
    odd = make_row(7, spot=True, saving=0.7, first_capacity_s=60.0, uncorrected_s=3_600.0, **USE)
    return [*rows, {**odd, **fields}]


@pytest.mark.parametrize(("column", "value"), GAPS)
def test_a_row_with_a_gap_is_left_out(column: str, value: Any) -> None:
    rows = make_rows(**{column: value})
    assert not is_usable(rows[-1]) and is_usable(rows[0])
    assert replace(plan(rows), unusable_jobs=()) == plan(rows[:-1])
    assert plan(rows).unusable_jobs == (rows[-1]["name"],) and plan(rows[:-1]).unusable_jobs == ()
    spec = {"instance_types": ["ml.m5.*"], "region": "us-east-1", "model": "flights"}
    chosen, expected = (choose(ChooseInstanceSpec.parse(spec, "test"), some, NOW) for some in (rows, rows[:-1]))
    assert chosen == expected and chosen.predicted_s


@pytest.mark.parametrize(("column", "value"), ODD_FIGURES)
def test_a_figure_that_is_not_known_breaks_no_plan(column: str, value: Any) -> None:
    recommendation = plan(make_rows(**{column: value}))
    assert {option.market for option in recommendation.options} == {"on demand", "spot"}
    for option in recommendation.options:
        figures = (option.seconds, option.low_s, option.high_s, option.cost_usd, option.high_usd, option.finish_s)
        assert all(0 < figure < math.inf for figure in figures), option
    assert recommendation.accuracy and recommendation.accuracy.raw_error < 0.01


def test_the_report_names_the_jobs_that_are_left_out() -> None:
    rows = [
        *make_rows(),
        *(make_row(n, name=f"damaged-{n}", cost_usd=None) for n in range(5)),
        make_row(9, status="Failed"),
    ]
    line = format_lines(plan(rows), NOW.date())[-1]
    assert line == (
        "Ledger: 5 past job(s) left out, because a figure of their rows is missing or not possible: damaged-0, "
        "damaged-1, damaged-2 and 2 more."
    )
    assert not any(line.startswith("Ledger") for line in format_lines(plan(make_rows()), NOW.date()))


def test_trials_of_a_tuning_are_no_trainings_of_the_model() -> None:
    """A trial trains on a part of the window, by other hyperparameters. Its name is that which SageMaker gives it."""
    trials = [make_row(n, name=f"flights-tune-x-1-{n:03d}-0a1b2c3d", training_s=60, **USE) for n in range(10, 16)]
    rows = [make_row(n, **USE) for n in range(3)] + trials
    recommendation = plan(rows)
    assert recommendation.workload.startswith("flights: 3 past job(s) of 3,600 s")
    assert recommendation.accuracy and recommendation.accuracy.jobs == 2
    spec = {"instance_types": ["ml.m5.2xlarge"], "region": "us-east-1", "model": "flights"}
    assert choose(ChooseInstanceSpec.parse(spec, "test"), rows, NOW).predicted_s == 3_600
    assert choose(ChooseInstanceSpec.parse(spec, "test"), trials, NOW).predicted_s is None
    inputs = PlanInputs(["us-east-1"], past_jobs_of=trials[0]["name"], allow=["ml.m5.*"])
    assert "1 past job(s) of 60 s" in build_request(inputs, Limits(), rows).workload.describe(), "one trial by its name"
