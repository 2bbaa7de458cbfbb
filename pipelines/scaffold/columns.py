"""Infer the kind of each column of a sample: number, category, time, id, constant, free text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.scaffold.decimals import NULL_TEXTS, parse_numbers
from pipelines.scaffold.times import TimeFormats, find_time_formats

Kind = Literal["number", "truth", "category", "time", "id", "constant", "empty", "text", "infinite", "unnamed", "other"]
TYPES = {"number": "float64", "truth": "bool"}
TRUTHS = ("true", "false")
MAX_CATEGORIES, ROWS_PER_CATEGORY = 1_000, 20
"""A text column is a category if it has at most `MAX_CATEGORIES` values and at least `ROWS_PER_CATEGORY` rows for each,
or very few values."""
FEW_CATEGORIES, FEW_CLASSES = 30, 2
ID_SHARE = 0.9
"""Smallest share of distinct values in a column that identifies rows."""
MAX_CODE_CHARS = 40
"""Largest length of a code, characters. Longer texts, and texts of several words, are free text."""


@dataclass(frozen=True)
class Column:
    """A column of the sample."""

    name: str
    kind: Kind
    type: pa.DataType
    """Type to read it in."""
    values: pa.Array
    """Its values in the type of its kind; null where one is missing."""
    distinct: int
    """Number of different values."""
    texts: pa.Array | None = field(default=None, repr=False)
    """The texts of the source; None for a source with types."""
    nulls: Sequence[str] = ()
    """Texts that mean that a value is missing, in addition to the empty text."""
    nans: int = 0
    """Number of values that are NaN, which counts as missing."""
    time: TimeFormats | None = field(default=None, repr=False)
    """Formats of the times; None if the column has no times, or if the source itself has the type."""

    @property
    def missing(self) -> int:
        """Number of missing values."""
        return int(self.values.null_count)

    @property
    def is_feature(self) -> bool:
        """Whether a model can use the column."""
        return self.kind in ("number", "truth", "category")

    @property
    def is_integer(self) -> bool:
        """Whether all values are whole numbers."""
        if self.kind not in ("number", "id", "constant") or not pa.types.is_floating(self.values.type):
            return bool(pa.types.is_integer(self.values.type))
        return bool(pc.all(pc.equal(pc.floor(self.values), self.values)).as_py())


def infer_columns(
    table: pa.Table, time_formats: Sequence[str] = (), time: str = "", decimal_point: str = "."
) -> list[Column]:
    """Infer the kind of each column.

    Args:
        table: the sample. A column of a type that no model can use, such as a list, is of the kind "other".
        time_formats: formats of the column `time`; if that column is not known, of all columns with times.
        time: name of the column that holds the times of the rows; empty if it is not known.
        decimal_point: character before the decimals of numbers that are texts.
    """
    columns = []
    for name in table.column_names:
        values = _simplify(table[name].combine_chunks())
        formats = time_formats if name == (time or name) else ()
        column = _infer_column(name, values, formats, decimal_point)
        if not name.strip():
            column = replace(column, kind="unnamed")
        columns.append(replace(column, texts=values) if pa.types.is_string(values.type) else column)
    return columns


def _simplify(values: pa.Array) -> pa.Array:
    """Return the values in the plainest type that holds them."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        return values.cast(pa.string())
    if pa.types.is_float16(values.type):
        return values.cast(pa.float64())
    if pa.types.is_null(values.type):
        return values.cast(pa.string())
    return values


def _infer_column(name: str, values: pa.Array, formats: Sequence[str], decimal_point: str) -> Column:
    if pa.types.is_string(values.type):
        return _infer_text(name, values, formats, decimal_point)
    if not _is_usable(values):
        return Column(name, "other", values.type, values, 0)
    distinct = pc.count_distinct(values).as_py()
    if not distinct:
        return Column(name, "empty", values.type, values, 0)
    if _is_time(values.type):
        kind = pa.date32() if pa.types.is_date(values.type) else pa.timestamp("us", "UTC")
        return Column(name, "time", kind, values, distinct)
    if pa.types.is_boolean(values.type):
        return Column(name, "truth" if distinct > 1 else "constant", pa.bool_(), values, distinct)
    return _infer_number(name, values, distinct, ())


def _is_usable(values: pa.Array) -> bool:
    """Return whether a model or a key can use values of the type."""
    if pa.types.is_uint64(values.type) and (pc.max(values).as_py() or 0) >= 1 << 63:
        return False  # the lake has no type for it
    return _is_number(values.type) or bool(pa.types.is_boolean(values.type)) or _is_time(values.type)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _infer_number(name: str, values: pa.Array, distinct: int, nulls: Sequence[str]) -> Column:
    is_integer = pa.types.is_integer(values.type)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    nans = 0
    if pa.types.is_floating(values.type):
        nans = pc.sum(pc.is_nan(values)).as_py() or 0
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        if pc.any(pc.is_inf(values)).as_py():
            return Column(name, "infinite", pa.float64(), values, distinct, nulls=nulls)
    rows = len(values) - values.null_count
    # Measured amounts are rarely distinct whole numbers, so such a column is an id.
    is_id = is_integer and distinct == rows and rows > FEW_CATEGORIES
    kind: Kind = "constant" if distinct == 1 else "id" if is_id else "number"
    stored_type = pa.int64() if is_integer and kind == "id" else pa.float64()
    return Column(name, kind, stored_type, values, distinct, nulls=nulls, nans=nans)


def _infer_text(name: str, texts: pa.Array, formats: Sequence[str], decimal_point: str) -> Column:
    texts = _replace(texts, [""])
    known = [text for text in NULL_TEXTS if pc.any(pc.equal(texts, text)).as_py()]
    values = _replace(texts, known)
    distinct = pc.count_distinct(values).as_py()
    if not distinct:
        return Column(name, "empty", pa.string(), values, 0)
    given_time = find_time_formats(values, formats) if formats else None
    if (numbers := parse_numbers(values, decimal_point)) is not None and not given_time:
        number = _infer_number(name, numbers, distinct, known)
        # An eight-digit number such as 20130105 is a day.
        if not (number.is_integer and pc.min(numbers).as_py() > 19_000_101 and pc.max(numbers).as_py() < 21_001_231):
            return number
    time = given_time or find_time_formats(values)
    if time and (distinct > 1 or given_time):
        return Column(name, "time", pa.timestamp("us", "UTC"), time.times, distinct, nulls=known, time=time)
    if numbers is not None:
        return _infer_number(name, numbers, distinct, known)
    lower_values = {str(value).lower() for value in pc.unique(values.drop_null()).slice(0, 3)}
    if lower_values == set(TRUTHS):
        return Column(name, "truth", pa.bool_(), pc.equal(pc.utf8_lower(values), "true"), 2, nulls=known)
    has_few_classes = bool(known) and distinct <= FEW_CLASSES  # with yes and no, `NA` is not a third class
    return replace(_infer_category(name, values if has_few_classes else texts), nulls=known if has_few_classes else ())


def _infer_category(name: str, values: pa.Array) -> Column:
    distinct, rows = pc.count_distinct(values).as_py(), len(values) - values.null_count
    longest = pc.max(pc.utf8_length(values)).as_py()
    words = pc.mean(pc.count_substring(values, " ")).as_py() + 1
    kind: Kind
    if distinct == 1:
        kind = "constant"
    elif longest > MAX_CODE_CHARS and words > 2:
        kind = "text"
    elif distinct <= FEW_CATEGORIES or (distinct <= MAX_CATEGORIES and distinct * ROWS_PER_CATEGORY <= rows):
        kind = "category"
    elif distinct >= ID_SHARE * rows or words < 2:
        kind = "id"
    else:
        kind = "text"
    return Column(name, kind, pa.string(), values, distinct)


def _replace(texts: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Replace the texts that mean a missing value by null."""
    if not missing:
        return texts
    is_missing = pc.is_in(texts, value_set=pa.array(missing, pa.string()))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), texts)
