"""Define the keys of partitions: `datetime.date` for a day, `Hour` for an hour, `Month` for a month.

The rows of a partition have its day in the column `date`. For an hour, this is its day in UTC; for a month, its first
day. The rows of an hour also have the number of the hour, 0 to 23, in the column `hour`. Keys of one unit are ordered
by time.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from pipelines.errors import SpecError
from pipelines.window import Unit

if TYPE_CHECKING:
    from pipelines.dataset import Dataset

HOUR_COLUMN = "hour"
"""Name of the column of the hour, 0 to 23 in UTC, of datasets with partitions by hour."""
EXAMPLES: dict[Unit, str] = {"hour": "2013-01-31T05", "day": "2013-01-31", "month": "2013-01"}
"""Maps each unit to an example of a key."""
_HOUR = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)")
_MONTH = re.compile(r"\d{4}-\d\d")


@dataclass(frozen=True, order=True)
class Hour:
    """An hour of a day in UTC."""

    day: dt.date
    hour: int
    """0 to 23."""

    def isoformat(self) -> str:
        """Format as YYYY-MM-DDTHH."""
        return f"{self.day}T{self.hour:02d}"

    __str__ = isoformat


@dataclass(frozen=True, order=True)
class Month:
    """A month."""

    first: dt.date
    """The first day of the month."""

    def isoformat(self) -> str:
        """Format as YYYY-MM."""
        return f"{self.first:%Y-%m}"

    __str__ = isoformat


Partition = dt.date | Hour | Month
"""The key of a partition."""
PartitionT = TypeVar("PartitionT", bound=Partition)


def parse_partition(text: str) -> Partition:
    """Parse a key: YYYY-MM-DDTHH, YYYY-MM, or a day as `datetime.date.fromisoformat` accepts it, such as YYYY-MM-DD.

    Raises:
        ValueError: the text has none of these forms, or there is no such day, hour or month.
    """
    if match := _HOUR.fullmatch(text):
        if int(match[2]) > 23:
            raise ValueError("the hour must be from 00 to 23")
        return Hour(dt.date.fromisoformat(match[1]), int(match[2]))
    if _MONTH.fullmatch(text):
        return Month(dt.date.fromisoformat(f"{text}-01"))
    return dt.date.fromisoformat(text)


def _validate(value: Any, validate_day: Callable[[Any], dt.date]) -> Partition:
    if isinstance(value, Hour | Month):
        return value
    is_hour_or_month = isinstance(value, str) and (_HOUR.fullmatch(value) or _MONTH.fullmatch(value))
    return parse_partition(value) if is_hour_or_month else validate_day(value)


class _KeySchema:
    """Make pydantic parse hours and months by `parse_partition`, and days as it parses any date."""

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            _validate,
            handler.generate_schema(dt.date),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda key: key.isoformat(), return_schema=core_schema.str_schema(), when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(self, _: CoreSchema, __: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "examples": list(EXAMPLES.values())}


PartitionKey = Annotated[Partition, _KeySchema()]
"""A field of a spec or result that holds a `Partition`."""


def get_unit(partition: Partition) -> Unit:
    """Return the unit of a key."""
    return "hour" if isinstance(partition, Hour) else "month" if isinstance(partition, Month) else "day"


def get_date(partition: Partition) -> dt.date:
    """Return the value of the column `date` in the rows of a partition."""
    if isinstance(partition, Hour):
        return partition.day
    return partition.first if isinstance(partition, Month) else partition


def check_partition(dataset: Dataset, partition: Partition, field: str = "partition") -> None:
    """Check that a key has the unit of a dataset's partitions.

    Raises:
        SpecError: the key has another unit. A retry cannot help.
    """
    unit = get_unit(partition)
    if unit != dataset.partition:
        article = "an" if unit == "hour" else "a"
        message = (
            f"{field} {partition} is {article} {unit}, but the partitions of {dataset.name} are {dataset.partition}s."
        )
        raise SpecError(message, f"Write it as {EXAMPLES[dataset.partition]}.")


def refuse_monthly_partitions(dataset: Dataset, purpose: str) -> None:
    """Refuse a dataset whose partitions are months.

    Args:
        dataset: the dataset.
        purpose: the operation that needs days; the subject of the message.

    Raises:
        SpecError: the dataset's partitions are months. A retry cannot help.
    """
    if dataset.partition == "month":
        raise SpecError(f"{purpose} compares days, but the partitions of {dataset.name} are months.")
