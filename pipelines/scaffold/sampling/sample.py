"""Define a sample of the rows of a source whose columns and types are not known yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from pipelines.ingestion.sources.addresses import redact

Kind = Literal["csv", "json", "parquet", "database", "api"]
"""Kind of a source."""
MAX_ROWS = 500_000
"""Number of rows after which no more are read. A sample may have more rows, because rows are read in blocks: parts of a
file, or whole days of an API."""


@dataclass(frozen=True)
class Sample:
    """Rows of the source, and how it is read. The columns of a CSV are texts."""

    kind: Kind
    url: str
    """Address of the source; for files, it may contain * and {date}."""
    table: pa.Table
    """The rows. If the name of a file gives the day, they have a column `date`."""
    has_files_by_day: bool = False
    """Whether the source has a file, or an address, for each day."""
    delimiter: str = ","
    """Character between the values of a CSV."""
    encoding: str = "utf-8"
    """Encoding of a CSV."""
    decimal_point: str = "."
    """Character before the decimals in a CSV."""
    has_final_newline: bool = True
    """Whether the last line of a CSV ends with a newline."""
    next_path: str = ""
    """Dotted path to the address of the next page of an API; empty: it is in the header `Link`, if there is one."""
    is_complete: bool = True
    """Whether the sample has all rows of the source; of an API, all rows of each day that the sample has."""

    @property
    def origin(self) -> str:
        """The source in a few words, without secrets."""
        return redact(self.url)
