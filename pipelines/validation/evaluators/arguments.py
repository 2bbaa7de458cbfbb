"""Define the kwargs of the expectations that this package evaluates, as strict pydantic models.

An expectation of Great Expectations may have other kwargs, such as a `row_condition` that is a string. Then Great
Expectations evaluates it, because it knows more kwargs, and has better error messages. Leeway's own expectations cannot
have other kwargs.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _check_time_zone(name: str) -> str:
    try:
        ZoneInfo(name or "UTC")
    except (ValueError, OSError, LookupError):
        raise ValueError("not a name of the IANA time zone database") from None
    return name


Name = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Number = int | Annotated[float, Field(allow_inf_nan=False)]
TimeZone = Annotated[str, AfterValidator(_check_time_zone)]
Days = Annotated[int, Field(ge=0, le=366)]


class Arguments(BaseModel):
    """Kwargs of an expectation."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ColumnArguments(Arguments):
    """Kwargs of an expectation about a column."""

    column: Name


class ValueArguments(ColumnArguments):
    """Kwargs of an expectation about each value of a column."""

    mostly: Share = 1.0
    """Smallest share of the judged rows that must meet the expectation, 0 to 1."""


class RangeArguments(Arguments):
    """Kwargs of an expectation about a range."""

    min_value: Number | None = None
    max_value: Number | None = None
    strict_min: bool = False
    strict_max: bool = False


class AggregateRange(ColumnArguments, RangeArguments):
    """Kwargs: an aggregate of a column is in a range."""


class ValueRange(ValueArguments, RangeArguments):
    """Kwargs: each value is in a range. The bounds of dates and timestamps are ISO 8601."""

    min_value: Number | str | None = None  # type: ignore[assignment]
    max_value: Number | str | None = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _check_has_bound(self) -> Self:
        if self.min_value is None and self.max_value is None:
            raise ValueError("min_value and max_value cannot both be null")
        return self


class LengthRange(ValueArguments, RangeArguments):
    """Kwargs: the length of each value is in a range, characters."""

    min_value: int | None = None
    max_value: int | None = None


class ExactLength(ValueArguments):
    """Kwargs: each value has this length, characters."""

    value: int


class ValueSet(ValueArguments):
    """Kwargs: each value is in a set, or no value is."""

    value_set: list[Number | str]


class DistinctValueSet(ColumnArguments):
    """Kwargs: the distinct values of a column are compared with a set."""

    value_set: list[Number | str]


class ExcludedPattern(ValueArguments):
    """Kwargs: no value matches a regular expression of Python."""

    regex: str


class Pattern(ValueArguments):
    """Kwargs: each value matches a regular expression of Python."""

    regex: str = "(?s).*"


class ColumnPair(Arguments):
    """Kwargs: two columns are compared row by row."""

    column_A: Name
    column_B: Name
    mostly: Share = 1.0
    ignore_row_if: Literal["both_values_are_missing", "either_value_is_missing", "neither"] = "both_values_are_missing"


class OrderedPair(ColumnPair):
    """Kwargs: the first column is greater than the second."""

    or_equal: bool | None = None


class SeveralColumns(Arguments):
    """Kwargs: several columns are judged together, row by row."""

    column_list: Annotated[list[Name], Field(min_length=2)]
    mostly: Share = 1.0
    ignore_row_if: Literal["all_values_are_missing", "any_value_is_missing", "never"] = "all_values_are_missing"


class ExactCount(Arguments):
    """Kwargs: the number of rows or columns is this number."""

    value: int


class CountRange(RangeArguments):
    """Kwargs: the number of rows is in a range."""

    min_value: int | None = None
    max_value: int | None = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min_value is not None and self.max_value is not None and self.min_value > self.max_value:
            raise ValueError("min_value must be at most max_value")
        return self


class DistinctCountRange(ColumnArguments, RangeArguments):
    """Kwargs: the number of distinct values of a column is in a range of whole numbers."""

    min_value: int | None = None
    max_value: int | None = None


class ColumnCountRange(Arguments):
    """Kwargs: the number of columns is in a range."""

    min_value: int | None = None
    max_value: int | None = None


class ColumnSet(Arguments):
    """Kwargs: the columns have these names, in any order."""

    column_set: list[str]
    exact_match: bool | None = True


class ColumnList(Arguments):
    """Kwargs: the columns have these names, in this order."""

    column_list: list[str]


class ExistingColumn(ColumnArguments):
    """Kwargs: the column exists."""

    column_index: int | None = None
    """Position of the column, from 0; null or 0: any position."""


class VolumeArguments(Arguments):
    """Kwargs: the number of rows is close to that of earlier weeks; for a month, of earlier months (Leeway's own)."""

    weeks: Annotated[int, Field(ge=1, le=104)] = 8
    """Number of earlier weeks (for a partition by month: months) to compare with, one partition of each."""
    min_ratio: Annotated[float, Field(ge=0)] = 0.5
    """Smallest ratio of the number of rows to the median of the earlier partitions."""
    max_ratio: Annotated[float, Field(gt=0)] = 2.0
    """Largest ratio of the number of rows to the median of the earlier partitions."""
    min_history: Annotated[int, Field(ge=1)] = 3
    """Smallest number of published earlier partitions. If there are fewer, the expectation holds."""


class FreshnessArguments(ColumnArguments):
    """Kwargs: the newest value is not too old at the partition's end (Leeway's own)."""

    max_age_hours: Annotated[float, Field(gt=0)]


class ShrinkArguments(Arguments):
    """Kwargs: the partition has no fewer rows than its published and quarantined rows together (Leeway's own)."""

    min_ratio: Share = 1.0
    """Smallest ratio of the number of rows to the number of published and quarantined rows."""
    key: list[Name] = []
    """Columns that identify a row, to find rows that are both published and in quarantine."""


class EarlyEndArguments(Arguments):
    """Kwargs: at its end, the day has not far fewer rows than the published days around it (Leeway's own)."""

    column: str = ""
    """Timestamp of a row's event; empty: only the number of rows is compared."""
    timezone: TimeZone = ""
    """Time zone in which days begin and end. Empty: UTC, with a tolerance of one hour for clock changes."""
    series: list[Name] = []
    """Columns that identify a series with rows all day, such as a station. No series may end early."""
    min_ratio: Share = 0.3
    """Smallest ratio of the number of rows at the end of the day to the usual number: the smallest one of the days
    around it, apart from a few days with the fewest rows."""


class MatchInTable(Arguments):
    """Kwargs: each row has a match in another table (Leeway's own)."""

    columns: Annotated[list[Name], Field(min_length=1)]
    """Columns of the judged rows whose values must be together in a row of the other table."""
    table: Annotated[str, Field(pattern=r"^\w+$")]
    """The other table."""
    other_columns: list[Name] = []
    """Columns of the other table, in the order of `columns`; empty: the columns with the same names."""
    by_hour: bool = False
    """Whether two timestamps match if they are in the same hour."""
    days_before: Days = 0
    """Days before the partition in which a match may be."""
    days_after: Days = 0
    """Days after the partition in which a match may be."""
    mostly: Share = 1.0

    @model_validator(mode="after")
    def _check_same_length(self) -> Self:
        if self.other_columns and len(self.other_columns) != len(self.columns):
            raise ValueError("columns and other_columns must have the same length")
        return self
