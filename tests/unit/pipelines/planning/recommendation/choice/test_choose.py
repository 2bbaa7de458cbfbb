"""Test the choice of one instance type for a training that is about to start."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DataError, SpecError
from pipelines.planning.recommendation.choice.choose import choose
from pipelines.planning.recommendation.choice.training import Choice
from pipelines.steps.choose_instance import ChooseInstanceSpec
from tests.tools.ledger_rows import make_row

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
USE = {"cpu_mean": 700, "memory_peak": 5}
TYPES = ["ml.m5.xlarge", "ml.m5.2xlarge"]


@pytest.fixture(autouse=True)
def prices(home: Path) -> None:
    """Use the prices of the package."""


def run(rows: list[dict[str, Any]], month_left_usd: float | None = None, **fields: Any) -> Choice:
    spec = {"instance_types": TYPES, "region": "us-east-1", "model": "flights", **fields}
    return choose(ChooseInstanceSpec.parse(spec, "test"), rows, NOW, month_left_usd)


def test_spot_is_compared_only_if_the_saving_of_all_types_is_known() -> None:
    dear, cheap = (
        {"instance_type": name, "spot": True, "saving": saving, **USE}
        for name, saving in (("ml.m5.xlarge", 0.1), ("ml.m5.2xlarge", 0.9))
    )
    rows = [make_row(1, training_s=6_000, **dear), make_row(2, **cheap)]
    known = run(rows)
    assert known.instance_type == "ml.m5.2xlarge" and " spot" in known.instance_choice
    assert known.predicted_usd == pytest.approx(0.461 * 0.1, rel=0.01)
    choice_of_one = run(rows[1:])
    assert choice_of_one.instance_type == "ml.m5.xlarge" and "at most" in choice_of_one.instance_choice
    assert run(rows, spot=False).instance_type == "ml.m5.xlarge", "6,000 s at half the price cost less than 3,600 s"


def test_the_market_is_chosen_before_the_limits() -> None:
    """Both types are within the budget only on spot, and within the deadline only on demand."""
    figures = {"spot": True, "saving": 0.9, "first_capacity_s": 3_600.0, **USE}
    rows = [make_row(1, training_s=6_000, instance_type="ml.m5.xlarge", **figures), make_row(2, **figures)]
    rows += [make_row(3, first_capacity_s=0.0, **USE)]
    spot = run(rows, budget_usd=0.1)
    assert spot.predicted_usd == pytest.approx(0.383 * 0.1, rel=0.01) and " spot" in spot.instance_choice
    with pytest.raises(DataError, match="no instance type fits"):
        run(rows, budget_usd=0.1, spot=False)
    assert run(rows, deadline="61m", spot=False).instance_type == "ml.m5.2xlarge"
    with pytest.raises(DataError, match="no instance type fits") as error:
        run(rows, deadline="61m")
    assert "The fastest is ml.m5.2xlarge spot in us-east-1: 2.0 h" in error.value.hint


def test_a_cost_whose_saving_is_not_known_is_not_predicted() -> None:
    spot = {"instance_type": "ml.m5.2xlarge", "spot": True, "saving": 0.7, **USE}
    choice = run([make_row(1, **spot)])
    assert choice.instance_type == "ml.m5.xlarge" and choice.predicted_s == pytest.approx(6_300)
    assert (choice.predicted_usd, choice.uncorrected_usd) == (None, None)
    assert "at most 0.4025 USD spot (the saving is not known)" in choice.instance_choice
    known = run([make_row(1, **spot)], instance_types=["ml.m5.xlarge", "ml.m5.2xlarge"], deadline="70m")
    assert known.instance_type == "ml.m5.2xlarge" and known.predicted_usd == pytest.approx(0.461 * 0.3)


def test_what_the_job_may_take_at_most_is_a_limit() -> None:
    rows = [make_row(1, **USE)]
    assert run(rows, max_run_s=7_200).instance_type == "ml.m5.xlarge"
    shorter = run(rows, max_run_s=6_000)
    assert shorter.instance_types == ("ml.m5.2xlarge",) and "1 left out" in shorter.instance_choice
    with pytest.raises(DataError, match=r"no instance type fits .*max_run_s 1800") as error:
        run(rows, max_run_s=1_800)
    assert (
        "it takes 1.0 h or more of training, and max_run_s stops it after 30.0 min: would fit with max_run_s=3600"
        in str(error.value.hint)
    )
    waits = [make_row(n, spot=True, saving=0.7, first_capacity_s=4_000.0, **USE) for n in range(3)]
    with pytest.raises(DataError) as error:
        run(waits, max_run_s=7_200, max_wait_s=7_200, instance_types=["ml.m5.2xlarge"])
    assert "would fit with max_wait_s=7600" in error.value.hint
    assert run(waits, max_run_s=7_200, max_wait_s=7_200, instance_types=["ml.m5.2xlarge"], spot=False).predicted_s


def test_a_type_whose_worst_case_the_operator_would_refuse_is_left_out() -> None:
    """All of max_run_s costs 0.46 USD on ml.m5.xlarge and 0.92 on ml.m5.2xlarge."""
    rows = [make_row(n, training_s=600, **USE) for n in range(3)]
    rows += [make_row(9, training_s=6_000, instance_type="ml.m5.xlarge", **USE)]
    figures: dict[str, Any] = {"spot": False, "max_run_s": 7_200}
    assert run(rows, budget_usd=1.0, **figures).instance_type == "ml.m5.2xlarge", "0.08 USD instead of 0.38"
    choice = run(rows, budget_usd=0.5, **figures)
    assert choice.instance_types == ("ml.m5.xlarge",)
    with pytest.raises(DataError) as error:
        run(rows, budget_usd=0.1, **figures)
    assert "costs 0.9220 USD at worst (max_run_s of 7200 at the price on demand)" in error.value.hint
    assert "would fit with budget_usd=0.93 or max_run_s=780" in error.value.hint


@pytest.mark.parametrize("has_past_jobs", [True, False])
def test_a_type_whose_worst_case_is_over_the_rest_of_the_month_is_left_out(has_past_jobs: bool) -> None:
    """All of max_run_s costs 0.46 USD on ml.m5.xlarge and 0.92 on ml.m5.2xlarge."""
    rows = [make_row(n, training_s=600, **USE) for n in range(3)] if has_past_jobs else []
    figures: dict[str, Any] = {"spot": False, "max_run_s": 7_200, "budget_usd": 5.0}
    assert set(run(rows, 1.0, **figures).instance_types) == set(TYPES)
    assert run(rows, 0.5, **figures).instance_types == ("ml.m5.xlarge",)
    for left_usd in (0.1, 0.0, -3.0):
        with pytest.raises(DataError) as error:
            run(rows, left_usd, **figures)
        assert "over what is left of the month's budget" in f"{error.value.message} {error.value.hint}"
        assert "month_usd" in error.value.hint and "budget_usd=" not in error.value.hint
    assert run(rows, -3.0, spot=False).instance_type, "without max_run_s, there is no worst case"


def test_the_first_type_that_may_start_is_used_if_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = {"ml.m5.xlarge": 0.23, "ml.m5.2xlarge": 0.461, "ml.trn1.2xlarge": 0.1}
    table = {"as_of": "2026-10-01", "prices": [{"regions": ["own-1"], "usd_per_hour": prices}]}
    (tmp_path / "own.json").write_text(json.dumps(table))
    monkeypatch.setenv("LEEWAY_PRICES", str(tmp_path / "own.json"))
    types = ["ml.m5.2xlarge", "ml.[mt]*"]
    choice = run([], instance_types=types, region="own-1", budget_usd=0.5, max_run_s=7_200)
    assert choice.instance_types == ("ml.m5.xlarge",), "no other one has a price and a worst case within the budget"
    assert "ml.m5.xlarge: the first of the allowed types that may start, because" in choice.instance_choice
    assert run([], instance_types=types, region="own-1").instance_types == ("ml.m5.2xlarge", "ml.m5.xlarge")
    assert run([], instance_types=["ml.trn1.2xlarge"], region="own-1").instance_types == ("ml.trn1.2xlarge",)
    with pytest.raises(DataError, match=r"none of the allowed types may start: ml\.m5\.2xlarge costs 0\.9220 USD"):
        run([], instance_types=types, region="own-1", budget_usd=0.1, max_run_s=7_200)
    with pytest.raises(DataError, match=r"may start: ml\.c5\.xlarge has no known price in own-1"):
        run([], instance_types=["ml.c5.xlarge"], region="own-1")


def test_past_jobs_of_the_task_are_used_without_a_model() -> None:
    task = {"dag_id": "dag", "task_id": "train"}
    rows = [make_row(1, model="", **task, **USE), make_row(2, model="", dag_id="dag", task_id="other", training_s=1)]
    choice = run(rows, model="", **task)
    assert choice.predicted_s == pytest.approx(6_300) and choice.prediction_basis == "scaled"
    assert "no completed training of task dag.x" in run(rows, model="", dag_id="dag", task_id="x").instance_choice


def test_another_number_of_instances_was_not_measured() -> None:
    choice = run([make_row(1, **USE)], instance_count=3)
    assert choice.instance_types == tuple(TYPES) and choice.predicted_s is None
    assert "past jobs ran on 1 instance(s), not on 3" in choice.instance_choice


def test_the_size_of_a_language_model() -> None:
    types = ["ml.g5.xlarge", "ml.g5.12xlarge", "ml.g5.48xlarge"]
    workload = {"params": "7e9", "tokens": "1e8", "sequence": "2048.0"}  # templates render to texts
    choice = run([], instance_types=types, workload=workload, instance_count=3)
    assert choice.instance_type == "ml.g5.12xlarge" and choice.prediction_basis == "formula"
    assert "ml.g5.xlarge" not in choice.instance_types, "3 x 24 GB do not hold 112 GB"
    with pytest.raises(DataError, match="no instance type fits") as error:
        run([], instance_types=types, workload=workload, deadline="5m")
    assert "The fastest is ml.g5.48xlarge" in error.value.hint


def test_patterns_and_their_order() -> None:
    choice = run([], instance_types=["ml.m5.xlarge", "ml.m5.*"])
    assert choice.instance_type == "ml.m5.xlarge" and len(choice.instance_types) == 6


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_types": ["ml.p2.xlarge"]}, "ml.p2.xlarge is retired"),
        ({"instance_types": ["ml.inf2.xlarge"]}, "SageMaker trains on none of ml.inf2.xlarge"),
        ({"deadline": "2026-11-27"}, "is in the past"),
        ({"workload": {"params": 7e9, "tokens": 1e9, "sequence": "long"}}, "sequence 'long' is not a number"),
        ({"workload": {"tokens": 1e9}}, "workload: params is missing"),
        ({"workload": {"params": "nan", "tokens": 1e9}}, "workload: params 'nan' is not a number"),
        ({"workload": {"params": "7 billion", "tokens": 1e9}}, "workload: params '7 billion' is not a number"),
        ({"workload": {"params": 7e9, "tokens": True}}, "workload: tokens True is not a number"),
        ({"workload": {"params": 7e9, "tokens": None}}, "workload: tokens None is not a number"),
        ({"workload": {"params": 7e9, "tokens": 1e9, "sequence": 2048.5}}, "sequence 2048.5 is not a whole number"),
        ({"workload": {"params": 7e9, "tokens": "-1"}}, "tokens must be a positive number"),
        ({"workload": {"params": 7e9, "tokens": 1e9, "method": ["lora"]}}, "method must be one of full, lora"),
    ],
)
def test_wrong_input(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run([make_row(1, **USE)], **fields)


def test_a_region_without_prices() -> None:
    with pytest.raises(DataError, match="no price is known in mars-north-1"):
        run([make_row(1, **USE)], region="mars-north-1")
