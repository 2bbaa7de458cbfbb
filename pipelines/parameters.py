"""Define the base class of specs and of the policies in them. This module needs only pydantic."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

MAX_DAYS = 36_525
"""Largest number of days that a parameter accepts: a hundred years. A larger number could make a date overflow."""


class Parameters(BaseModel):
    """Values that a person or a DAG gives. Unknown keys are refused, and so are `true` and NaN in place of a number."""

    # Not strict: Jinja and the command line pass numbers and dates as strings.
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` and `false` where a number is expected; pydantic would convert them to 1 and 0."""
        types = _list_types(cls.model_fields[str(info.field_name)].annotation)
        if types & {int, float} and bool not in types and _has_truth_value(value):
            raise ValueError("true and false are not numbers")
        return value


def _list_types(annotation: Any) -> set[Any]:
    """Return the annotation and all types inside it: for `dict[str, int] | None`, also `str` and `int`."""
    return {annotation}.union(*map(_list_types, get_args(annotation))) if _is_hashable(annotation) else set()


def _is_hashable(annotation: Any) -> bool:
    """Return whether the annotation can be in a set; False for some metadata of `Annotated`."""
    return type(annotation).__hash__ is not None


def _has_truth_value(value: Any) -> bool:
    """Return whether the value, or one inside a list or a mapping, is True or False."""
    if isinstance(value, dict):
        return any(map(_has_truth_value, value.values()))
    return isinstance(value, bool) or (isinstance(value, (list, tuple)) and any(map(_has_truth_value, value)))
