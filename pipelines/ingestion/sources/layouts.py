"""Define the columns that a file or a page of an API must have, and how its other columns are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from pipelines.errors import DataError

Extra = Literal["take", "ignore"]
"""What to do with columns that are not declared: read them, too, or ignore them."""


@dataclass(frozen=True)
class Layout:
    """The columns that a file must have, and options for reading it.

    Args:
        columns: type of each required column, by its name.
        extra: `take`: other columns are read too, in types inferred from the first rows; `ignore`: they are not read.
        delimiter: character between the values of a CSV.
        encoding: encoding of a CSV or of JSON lines.
        nulls: texts in a CSV that mean that a value is missing.
        decimal_point: character before the decimals of a number in a CSV.
        final_newline: whether a CSV must end with a newline. Without a newline, the last value may be truncated.
        columns_without_null_texts: text columns of a CSV to which `nulls` does not apply. In these columns only an
            empty value is missing, because a text such as `NA` may be a value.
    """

    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    extra: Extra = "take"
    delimiter: str = ","
    encoding: str = "utf-8"
    nulls: Sequence[str] = ("",)
    decimal_point: str = "."
    final_newline: bool = True
    columns_without_null_texts: Collection[str] = ()

    def list_undeclared_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the file that are read although they are not declared."""
        return [name for name in names if name not in self.columns] if self.extra == "take" else []


def check_columns(origin: str, required_names: Sequence[str], names: Sequence[str], hint: str = "") -> None:
    """Refuse a file that lacks a required column, or has two columns of the same name.

    Args:
        origin: name of the file, for the message.
        required_names: columns that the file must have.
        names: columns that the file has.
        hint: what to do about a missing column; if it is empty, the error lists the columns of the file instead.

    Raises:
        DataError: the message names the columns. A retry cannot help.
    """
    missing_names = [name for name in required_names if name not in names]
    if missing_names:
        listing = f"It has: {', '.join(map(repr, names[:30]))}."
        raise DataError(f"{origin} lacks the column(s) {', '.join(missing_names)}.", hint or listing)
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise DataError(
            f"{origin} has more than one column {', '.join(duplicates[:5])}.", "Rename all but one of them."
        )


def is_read_as_text(data_type: pa.DataType) -> bool:
    """Return whether values of the type are read as text and converted later, by the module `convert`.

    `convert` refuses some timestamps that pyarrow's readers of files would accept.
    """
    return bool(pa.types.is_timestamp(data_type))
