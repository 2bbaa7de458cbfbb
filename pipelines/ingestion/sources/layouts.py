"""What the formats of files share: which columns are demanded, and which are taken beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from pipelines.errors import DataError

Extra = Literal["take", "ignore"]


@dataclass(frozen=True)
class Layout:
    """What a file is to hold.

    Args:
        columns: demanded column to its type.
        extra: whether other columns are taken too, in types found in the first rows, or ignored.
        delimiter: between the values of a CSV.
        encoding: of a CSV or of JSON lines.
        nulls: words of a CSV that stand for no value.
    """

    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    extra: Extra = "take"
    delimiter: str = ","
    encoding: str = "utf-8"
    nulls: Sequence[str] = ("",)

    def others(self, names: Sequence[str]) -> list[str]:
        """Those of the file's columns that are taken though not declared."""
        return [one for one in names if one not in self.columns] if self.extra == "take" else []


def demand(place: str, wanted: Sequence[str], names: Sequence[str], hint: str = "") -> None:
    """Refuses a file that lacks a column, or has one twice.

    Raises:
        DataError: the columns are named.
    """
    missing = [one for one in wanted if one not in names]
    if missing:
        told = f"It has: {', '.join(map(repr, names[:30]))}."
        raise DataError(f"{place} lacks the column(s) {', '.join(missing)}.", hint or told)
    twice = sorted({one for one in names if names.count(one) > 1})
    if twice:
        raise DataError(f"{place} has more than one column {', '.join(twice[:5])}.", "Names must differ.")


def as_text(kind: pa.DataType) -> bool:
    """Whether values of the type are read as text first: their conversion is stricter than the reader's."""
    return bool(pa.types.is_timestamp(kind))
