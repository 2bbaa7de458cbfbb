"""The kwargs of the expectations that this package evaluates.

The models are strict. Kwargs that do not fit are not refused here: Great Expectations evaluates them, because it knows
more kwargs (such as `row_condition`) and has the better error messages.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Number = int | Annotated[float, Field(allow_inf_nan=False)]
Days = Annotated[int, Field(ge=0, le=366)]


class Arguments(BaseModel):
    """Kwargs of an expectation."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Nothing(Arguments):
    """Kwargs of an expectation about the whole table."""


class OfColumn(Arguments):
    """Kwargs of an expectation about a column."""

    column: Name


class OfValues(OfColumn):
    """Kwargs of an expectation about each value of a column."""

    mostly: Share = 1.0


class Bounded(Arguments):
    """A range."""

    min_value: Number | None = None
    max_value: Number | None = None
    strict_min: bool = False
    strict_max: bool = False


class ColumnBounded(OfColumn, Bounded):
    """A column's aggregate in a range."""


class ValuesBounded(OfValues, Bounded):
    """Each value in a range; of dates and moments, as ISO 8601."""

    min_value: Number | str | None = None  # type: ignore[assignment]
    max_value: Number | str | None = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.min_value is None and self.max_value is None:
            raise ValueError("min_value and max_value cannot both be null")
        return self


class LengthsBounded(OfValues, Bounded):
    """The length of each value in a range, characters."""

    min_value: int | None = None
    max_value: int | None = None


class LengthEqual(OfValues):
    """The length of each value."""

    value: int


class ValuesInSet(OfValues):
    """Each value in a set, or not."""

    value_set: list[Number | str]


class DistinctSet(OfColumn):
    """The values of a column against a set."""

    value_set: list[Number | str]


class Pattern(OfValues):
    """Each value against a regular expression, Python's."""

    regex: str = "(?s).*"


class Pair(Arguments):
    """Two columns, row by row."""

    column_A: Name
    column_B: Name
    mostly: Share = 1.0
    ignore_row_if: Literal["both_values_are_missing", "either_value_is_missing", "neither"] = "both_values_are_missing"


class PairGreater(Pair):
    """The first column above the second."""

    or_equal: bool | None = None


class Several(Arguments):
    """Several columns, row by row."""

    column_list: Annotated[list[Name], Field(min_length=2)]
    mostly: Share = 1.0
    ignore_row_if: Literal["all_values_are_missing", "any_value_is_missing", "never"] = "all_values_are_missing"


class Exactly(Arguments):
    """A number."""

    value: int


class CountBounded(Bounded):
    """A number of rows in a range."""

    min_value: int | None = None
    max_value: int | None = None


class ColumnCount(Arguments):
    """A number of columns in a range."""

    min_value: int | None = None
    max_value: int | None = None


class ColumnSet(Arguments):
    """The names of the columns, in any order."""

    column_set: list[str]
    exact_match: bool | None = True


class ColumnList(Arguments):
    """The names of the columns, in order."""

    column_list: list[str]


class Existing(OfColumn):
    """A column, and its place."""

    column_index: int | None = None


class Volume(Arguments):
    """The number of rows compared with earlier weeks (not in Great Expectations)."""

    weeks: Annotated[int, Field(ge=1, le=104)] = 8
    """Number of earlier partitions of the same weekday to compare with."""
    min_ratio: Annotated[float, Field(ge=0)] = 0.5
    max_ratio: Annotated[float, Field(gt=0)] = 2.0
    min_history: Annotated[int, Field(ge=1)] = 3
    """The expectation holds where fewer partitions than this exist."""


class Fresh(OfColumn):
    """The age of the newest value at the partition's end (not in Great Expectations)."""

    max_age_hours: Annotated[float, Field(gt=0)]


class Matched(Arguments):
    """Each row has a match in another table (not in Great Expectations)."""

    columns: Annotated[list[Name], Field(min_length=1)]
    table: Annotated[str, Field(pattern=r"^\w+$")]
    other_columns: list[Name] = []
    """Columns of the other table; the same names where it is empty."""
    by_hour: bool = False
    """Compare timestamps by their hour."""
    days_before: Days = 0
    days_after: Days = 0
    mostly: Share = 1.0

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if self.other_columns and len(self.other_columns) != len(self.columns):
            raise ValueError("columns and other_columns must have the same length")
        return self
