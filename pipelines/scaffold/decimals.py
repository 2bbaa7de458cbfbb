"""Find the character before the decimals of the numbers in texts, and parse the numbers."""

from __future__ import annotations

import contextlib
import re

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.system.log import log

NULL_TEXTS = ("NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", "?")
"""Texts that mean a missing value in a column whose other texts are numbers, times, or at most two distinct texts."""


def find_decimal_point(origin: str, table: pa.Table) -> str:
    """Return the character before the decimals in the columns of a CSV: `,` if numbers have decimal commas, else `.`.

    A file is read with one such character. If columns have different ones, the columns with `,` stay texts.

    Args:
        origin: name of the file, for the log.
        table: columns of texts.
    """
    texts = {name: table[name] for name in table.column_names if pa.types.is_string(table[name].type)}
    comma_columns, point_columns = ([name for name in texts if _has_decimals(texts[name], mark)] for mark in ",.")
    if comma_columns and point_columns:
        log.warning(
            "%s: column %s has decimal commas, and column %s decimal points: %s is read as text; use points in both",
            *(origin, comma_columns[0], point_columns[0], comma_columns[0]),
        )
    return "," if comma_columns and not point_columns else "."


def parse_numbers(texts: pa.Array, decimal_point: str = ".") -> pa.Array | None:
    """Return the numbers; None if a text is not a number. A number with leading zeros is a code, not a number."""
    if pc.any(pc.match_substring_regex(texts, r"^-?0\d")).as_py():
        return None
    if decimal_point != ".":
        if pc.any(pc.match_substring(texts, ".")).as_py():
            return None
        texts = pc.replace_substring(texts, decimal_point, ".")
    for number_type in (pa.int64(), pa.float64()):
        with contextlib.suppress(pa.ArrowException):
            return texts.cast(number_type)
    return None


def _has_decimals(texts: pa.ChunkedArray, mark: str) -> bool:
    """Return whether all texts are numbers, and some have decimals after `mark`, a comma or a point.

    Three digits after `mark` are not taken for decimals, because the comma in 1,234 may separate thousands.
    """
    values = texts.filter(pc.invert(pc.is_in(texts, value_set=pa.array(["", *NULL_TEXTS])))).drop_null()
    number_pattern, decimals_pattern = rf"^[+-]?\d+({re.escape(mark)}\d+)?$", rf"{re.escape(mark)}(\d{{1,2}}|\d{{4,}})$"
    is_number = pc.all(pc.match_substring_regex(values, number_pattern)).as_py()
    return bool(is_number and pc.any(pc.match_substring_regex(values, decimals_pattern)).as_py())
