"""Test the choice of one instance type for a training that is about to start."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DataError, SpecError
from pipelines.planning.recommendation.choice import Choice, choose
from pipelines.steps.choose_instance import ChooseInstanceSpec
from tests.tools.ledger_rows import make_row

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
USE = {"cpu_mean": 700, "memory_peak": 5}
TYPES = ["ml.m5.xlarge", "ml.m5.2xlarge"]


@pytest.fixture(autouse=True)
def prices(home: Path) -> None:
    """Use the prices of the package."""


def run(rows: list[dict[str, Any]], **fields: Any) -> Choice:
    spec = {"instance_types": TYPES, "region": "us-east-1", "model": "flights", **fields}
    return choose(ChooseInstanceSpec.parse(spec, "test"), rows, NOW)


def test_spot_is_compared_only_if_the_saving_of_all_types_is_known() -> None:
    dear, cheap = (
        {"instance_type": name, "spot": True, "saving": saving, **USE}
        for name, saving in (("ml.m5.xlarge", 0.1), ("ml.m5.2xlarge", 0.9))
    )
    rows = [make_row(1, training_s=6_000, **dear), make_row(2, **cheap)]
    known = run(rows)
    assert known.instance_type == "ml.m5.2xlarge" and " spot" in known.instance_choice
    assert known.predicted_usd == pytest.approx(0.461 * 0.1, rel=0.01)
    one = run(rows[1:])
    assert one.instance_type == "ml.m5.xlarge" and "on demand" in one.instance_choice
    assert run(rows, spot=False).instance_type == "ml.m5.xlarge", "6,000 s at half the price cost less than 3,600 s"


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
    workload = {"params": 7e9, "tokens": "1e8"}
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
    ],
)
def test_wrong_input(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run([make_row(1, **USE)], **fields)


def test_a_region_without_prices() -> None:
    with pytest.raises(DataError, match="no price is known in mars-north-1"):
        run([make_row(1, **USE)], region="mars-north-1")
