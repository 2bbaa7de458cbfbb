"""Test that parameters accept numbers where numbers are expected, and nothing else."""

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from pipelines.evaluation.gates import Policy
from pipelines.features.pinned_window import WindowSpec
from pipelines.loop.policy import Policy as GuardPolicy
from pipelines.monitoring.drift.policy import Policy as DriftPolicy
from pipelines.parameters import Parameters
from pipelines.steps.budget import BudgetSpec
from pipelines.steps.train import TrainSpec


class Example(Parameters):
    count: int = 1
    share: Annotated[float, Field(ge=0)] = 0.5
    limit: int | None = None
    values: dict[str, int | float | str] = {}  # noqa: RUF012
    flag: bool = False
    mixed: bool | int = 0
    names: list[str] = []  # noqa: RUF012


@pytest.mark.parametrize("field", ["count", "share", "limit"])
@pytest.mark.parametrize("value", [True, False, float("nan"), float("inf"), "x", [1], {}])
def test_refuses_what_is_no_number(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        Example.model_validate({field: value})


@pytest.mark.parametrize("value", [{"a": True}, {"a": float("nan")}])
def test_refuses_what_is_no_number_inside_a_mapping(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Example.model_validate({"values": value})


@pytest.mark.parametrize(
    "values",
    [
        {"count": "3"}, {"count": 2.0}, {"share": "0.5"}, {"limit": None}, {"flag": True}, {"mixed": True},
        {"values": {"a": 1, "b": 0.5, "c": "x"}}, {"names": ["true"]},
    ],
)  # fmt: skip
def test_accepts_numbers_texts_of_numbers_and_flags(values: dict[str, Any]) -> None:
    """This is the negative control. Jinja and the command line pass numbers as texts."""
    Example.model_validate(values)


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (WindowSpec, {"as_of": "2013-01-25", "train_days": True}),
        (WindowSpec, {"as_of": "2013-01-25", "train_days": 99999999999}),
        (WindowSpec, {"as_of": "2013-01-25", "holdout_days": 1.5}),
        (WindowSpec, {"as_of": "2013-01-25", "label_delay_days": -1}),
        (WindowSpec, {"as_of": "2013-01-25", "max_missing_days": "many"}),
        (TrainSpec, {"hyperparameters": {"num_round": True}}),
        (BudgetSpec, {"month_usd": True}),
        (Policy, {"min_rows": True}),
        (Policy, {"alpha": True}),
        (Policy, {"bounds": {"auc": {"at_least": True}}}),
        (GuardPolicy, {"per_week": True}),
        (DriftPolicy, {"at_least": True}),
        (DriftPolicy, {"bounds": {"psi": True}}),
    ],
)
def test_specs_and_policies_refuse_it_too(model: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as error:
        model.model_validate(values)
    fields = {str(problem["loc"][0]) for problem in error.value.errors() if problem["type"] != "missing"}
    assert fields == {name for name in values if name != "as_of"}
