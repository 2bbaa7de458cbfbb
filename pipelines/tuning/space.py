"""Define the space of a search for hyperparameters: the ranges and the lists of values of section `tune`.

This module needs only pydantic, because Airflow's operators import it through the step's Spec.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from pipelines.parameters import Parameters

Value = int | float | str
"""A value of a hyperparameter."""
MAX_GRID_POINTS = 10_000
"""Largest number of points of a grid."""
MAX_INT = 2**53
"""Largest value of an int. The bounds of a range are read as float, which is not exact for larger values."""
MAX_STEPS = 1_000_000_000
"""Largest number of steps of a range. A range with more steps should be a continuous one."""
NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,255}")
"""Allowed names of hyperparameters: SageMaker, MLflow and a command line accept them."""
RESERVED_NAMES = ("folds", "fold_days")
"""Arguments of the training script that the search itself sets."""


class Range(Parameters):
    """A range of numbers, from `low` to `high`, both included."""

    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    type: Literal["float", "int"] = "float"
    """Kind of number."""
    log: bool = False
    """Whether values are chosen on a logarithmic scale: as many between 0.01 and 0.1 as between 0.1 and 1."""
    step: Annotated[float, Field(gt=0)] | None = None
    """Distance between two values; without it, the step of an int is 1, and a float can have any value."""

    @model_validator(mode="before")
    @classmethod
    def _check_form(cls, values: Any) -> Any:
        if not isinstance(values, Mapping | Range):
            raise ValueError("it must be a range, such as {low: 0.01, high: 0.3}, or a list of values")
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} must be less than high {self.high:g}")
        if not math.isfinite(self.high - self.low):
            raise ValueError(f"low {self.low:g} and high {self.high:g} are too far apart")
        if self.log and self.low <= 0:
            raise ValueError(f"log needs a low of more than 0, not {self.low:g}")
        self._check_step()
        if self.type == "int":
            self._check_int()
        return self

    def _check_step(self) -> None:
        if self.step is None:
            return
        if self.log:
            raise ValueError("log and step exclude each other")
        if self.step > self.high - self.low:
            raise ValueError(f"step {self.step:g} is longer than the range")
        if (self.high - self.low) / self.step > MAX_STEPS:
            raise ValueError(f"step {self.step:g} divides the range into more than {MAX_STEPS:,} parts")

    def _check_int(self) -> None:
        bounds = (self.low, self.high, self.step or 1.0)
        if not all(bound.is_integer() for bound in bounds):
            raise ValueError("low, high and step of an int are whole numbers")
        if max(map(abs, bounds)) > MAX_INT:
            raise ValueError(f"an int is at most {MAX_INT:,}")

    def count_values(self) -> float:
        """Return the number of values; infinity if the range is continuous."""
        if self.type == "float" and self.step is None:
            return math.inf
        # 1e-9: the quotient of two floats may be a little less than a whole number.
        return math.floor((self.high - self.low) / (self.step or 1.0) + 1e-9) + 1

    def list_values(self) -> list[Value]:
        """List the values in ascending order; empty if the range is continuous.

        If there are more than `MAX_GRID_POINTS` values, only the first `MAX_GRID_POINTS + 1` are listed.
        """
        count, step = self.count_values(), self.step or 1.0
        if count == math.inf:
            return []
        values = [self.low + number * step for number in range(int(min(count, MAX_GRID_POINTS + 1)))]
        return [int(value) for value in values] if self.type == "int" else [float(f"{value:.12g}") for value in values]

    def contains(self, value: object) -> bool:
        """Return whether a value is in the range and, if the range has steps, on a step."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        if self.type == "int" and not float(value).is_integer():
            return False
        steps = (value - self.low) / (self.step or 1.0)
        return self.step is None or math.isclose(steps, round(steps), abs_tol=1e-9)


def _check_types(values: list[Any]) -> list[Any]:
    """Refuse what is neither a finite number nor a text. pydantic's message would have a line for each allowed type."""
    if any(isinstance(value, bool) for value in values):
        raise ValueError("true and false are not values; write 1 and 0, or a text")
    wrong_values = [value for value in values if not isinstance(value, str) and not _is_finite(value)]
    if wrong_values:
        raise ValueError(f"{repr(wrong_values[0])[:60]} is not a value; write finite numbers or texts")
    return values


def _is_finite(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _check_values(values: list[Value]) -> list[Value]:
    if len(values) < 2:
        raise ValueError("a list of values needs at least two; a fixed value belongs to train.hyperparameters")
    if len({_parse_number(value) for value in values}) < len(values):  # a script gets texts: 1 and "1" are equal
        raise ValueError("a value occurs twice")
    return values


def _parse_number(value: Value) -> Value:
    try:
        return float(value)
    except (ValueError, OverflowError):  # a text, or a large int
        return value


def _find_tag(choices: object) -> str:
    """Return `values` for a list and `range` for a range, so that pydantic reports only the errors of this form."""
    return "values" if isinstance(choices, list) else "range"


Values = Annotated[list[Value], BeforeValidator(_check_types), AfterValidator(_check_values)]
"""The values of a categorical hyperparameter: a trial gets one of them."""
Choices = Annotated[Annotated[Range, Tag("range")] | Annotated[Values, Tag("values")], Discriminator(_find_tag)]
"""The range or the values of one hyperparameter."""


def _check_space(space: dict[str, Choices]) -> dict[str, Choices]:
    if not space:
        raise ValueError("the space is empty, so there is nothing to search: name a hyperparameter and its range")
    wrong_names = [name for name in space if not NAME_PATTERN.fullmatch(name)]
    if wrong_names:
        raise ValueError(
            f"{wrong_names[0][:60]!r} is not a name of a hyperparameter: use letters, digits, _, - and ., at most 256"
        )
    reserved_names = [name for name in space if name in RESERVED_NAMES]
    if reserved_names:
        raise ValueError(f"{reserved_names[0]} is set by the search itself: use the key of section `tune`")
    return space


Space = Annotated[dict[str, Choices], AfterValidator(_check_space)]
"""Maps each hyperparameter to its range or its values."""
CheckedSpace = Mapping[str, Range | list[Value]]
"""The type of a space after pydantic has parsed it: `Space` also has the validators."""


def count_points(space: CheckedSpace) -> float:
    """Return the number of points of a space; infinity if a range is continuous."""
    return math.prod(
        choices.count_values() if isinstance(choices, Range) else len(choices) for choices in space.values()
    )


def list_grid_values(space: CheckedSpace) -> dict[str, list[Value]]:
    """Return the values of each hyperparameter for a grid, by name.

    Raises:
        ValueError: a range is continuous, or the grid has more than `MAX_GRID_POINTS` points.
    """
    values = {name: choices.list_values() if isinstance(choices, Range) else choices for name, choices in space.items()}
    continuous_names = [name for name, listed_values in values.items() if not listed_values]
    if continuous_names:
        raise ValueError(f"a grid needs a step, or a list of values, for {', '.join(continuous_names)}")
    points = math.prod(map(len, values.values()))
    if points > MAX_GRID_POINTS:
        raise ValueError(f"the grid has {points:,} points, more than {MAX_GRID_POINTS:,}")
    return values


def contains(space: CheckedSpace, values: Mapping[str, object]) -> bool:
    """Return whether `values` has a value of each hyperparameter, and each is inside the space."""
    return all(
        name in values and (choices.contains(values[name]) if isinstance(choices, Range) else values[name] in choices)
        for name, choices in space.items()
    )
