"""Test that errors name the keys that a person wrote, and not the names of types. tests/contract has the rest."""

from typing import Any

import pytest

from pipelines.contract import Spec
from pipelines.errors import SpecError
from pipelines.steps.record_tuning import RecordTuningSpec
from pipelines.tuning.plan import PlanSpec


class MixedSpec(Spec):
    """A spec whose fields can have several types."""

    columns: dict[str, list[int] | dict[str, int] | None]
    """A field."""


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"eta": {"low": 1}}, "space.eta.high is missing"),
        ({"eta": {"low": 1, "high": 2, "lgo": True}}, "unknown key space.eta.lgo"),
        ({"eta": {"low": 1, "high": 2, "range": {}}}, "unknown key space.eta.range"),  # this one the user wrote
        ({"range": {"low": 2, "high": 1}}, "space.range: low 2 must be less"),
        ({"eta": None}, "space.eta: it must be a range, such as"),
        ({"eta": [1, {"int": 1}]}, "space.eta: {'int': 1} is not a value; write finite"),
        ({1: [1, 2]}, "space.1: input should be a valid string"),
    ],
)
def test_errors_name_only_keys_that_were_given_or_are_missing(space: Any, message: str) -> None:
    for spec, values, prefix in (
        (PlanSpec, {"space": space}, ""),
        (RecordTuningSpec, {"plan": {"space": space}, "tuning_job": "t", "best": "t", "trials": [{}]}, "plan."),
    ):
        with pytest.raises(SpecError) as error:
            spec.parse(values, "t")
        text = str(error.value)
        assert message.replace("space.", f"{prefix}space.") in text and "\n" not in text
        assert not {".int", ".str", ".values", "range.range", "eta.range.h"} & {
            word for word in (".int", ".str", ".values", "range.range", "eta.range.h") if word in text
        }


def test_key_inside_a_value_of_several_types_is_named_without_them() -> None:
    with pytest.raises(SpecError) as error:
        MixedSpec.parse({"columns": {"a": {"list": "x"}, "b": [1, "y"]}}, "t")
    text = str(error.value)
    assert "columns.a.list: input" in text and "columns.b.1: input" in text
    assert "dict[" not in text and "list[" not in text


def test_missing_field_is_named() -> None:
    with pytest.raises(SpecError, match=r"^t: columns is missing\."):
        MixedSpec.parse({}, "t")
