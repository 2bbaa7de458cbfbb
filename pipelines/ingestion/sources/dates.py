"""Replace placeholders such as {date} or {date:%Y/%m/%d} in addresses and parameters by a day, hour or month."""

from __future__ import annotations

import datetime as dt
import re

from pipelines.partitions import Hour, Partition, get_date, get_unit
from pipelines.window import Unit

DATE_PLACEHOLDER = re.compile(r"\{date(?::([^{}]*))?\}")
"""A placeholder {date} or {date:FORMAT}; its group 1 is the format."""
FORMATS: dict[Unit, str] = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m"}
"""Maps each unit of partitions to the format of a placeholder {date} that has no format of its own."""


def fill_date(pattern: str, partition: Partition) -> str:
    """Replace every placeholder in the pattern by the start of the partition, in the placeholder's format."""
    hour = partition.hour if isinstance(partition, Hour) else 0
    start, default_format = dt.datetime.combine(get_date(partition), dt.time(hour)), FORMATS[get_unit(partition)]
    return DATE_PLACEHOLDER.sub(lambda match: start.strftime(match[1] or default_format), pattern)
