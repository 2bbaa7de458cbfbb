"""Fill in the partition in addresses and parameters: for {date}, or in another form for {date:%Y/%m/%d}."""

from __future__ import annotations

import datetime as dt
import re

from pipelines.partitions import Hour, Partition, get_date, get_unit
from pipelines.window import Unit

DATE_PLACEHOLDER = re.compile(r"\{date(?::([^{}]*))?\}")


FORMATS: dict[Unit, str] = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m"}
"""Form of {date} for each unit of partitions."""


def fill_date(pattern: str, partition: Partition) -> str:
    """Replace every placeholder in the pattern with the day, hour or month."""
    hour = partition.hour if isinstance(partition, Hour) else 0
    moment, default = dt.datetime.combine(get_date(partition), dt.time(hour)), FORMATS[get_unit(partition)]
    return DATE_PLACEHOLDER.sub(lambda match: moment.strftime(match[1] or default), pattern)
