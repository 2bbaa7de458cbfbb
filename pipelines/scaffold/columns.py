"""Infer the kind of each column of a sample, such as number, category, time, id or free text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.scaffold.decimals import NULL_TEXTS, parse_numbers
from pipelines.scaffold.times import TimeFormats, find_time_formats

Kind = Literal[
    "number", "boolean", "category", "time", "id", "constant", "empty", "text", "infinite", "unnamed", "other"
]
"""Kind of a column. infinite: numbers of which some are infinite. unnamed: a column with an empty name. other: a type
that no model can use, such as a list."""
BOOLEAN_TEXTS = ("true", "false")
MAX_CATEGORIES, ROWS_PER_CATEGORY = 1_000, 20
"""A text column is a category if it has at most `MAX_CATEGORIES` values, and at least `ROWS_PER_CATEGORY` rows for each
value on average."""
FEW_CATEGORIES = 30
"""A text column with at most this many values is a category, whatever the number of rows. A column of whole numbers is
an id only if it has more values."""
FEW_CLASSES = 2
"""In a text column with at most this many values, apart from `NULL_TEXTS`, the null texts mean missing values. In a
text column with more values, a text such as "NA" is a category of its own."""
ID_SHARE = 0.9
"""A text column with at least this share of distinct values is an id, if it is not a category, and not long free text.
So is a text column of mostly single words, whatever its share."""
MAX_CODE_CHARS = 40
"""Largest length of a text that is a code, such as a product number, characters. Longer texts of several words are free
text."""


@dataclass(frozen=True)
class Column:
    """A column of the sample."""

    name: str
    kind: Kind
    type: pa.DataType
    """Type in which the source of the new dataset reads the column."""
    values: pa.Array
    """The values in the type of the column's kind; null where a value is missing."""
    distinct_count: int
    """Number of different values."""
    texts: pa.Array | None = field(default=None, repr=False)
    """The values as they are in the sample, if they are texts there; else None."""
    null_texts: Sequence[str] = ()
    """Texts that mean that a value is missing, in addition to the empty text."""
    nan_count: int = 0
    """Number of values that are NaN. They are missing values, too."""
    time: TimeFormats | None = field(default=None, repr=False)
    """Formats of the times; None if the column has no times, or if the sample has them as times, not as texts."""

    @property
    def missing_count(self) -> int:
        """Number of missing values."""
        return int(self.values.null_count)

    @property
    def is_feature(self) -> bool:
        """Whether a model can use the column."""
        return self.kind in ("number", "boolean", "category")

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
    """Return the same values in a simpler type, such as `string` for texts in a dictionary."""
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
        return Column(name, "other", values.type, values, distinct_count=0)
    distinct_count = pc.count_distinct(values).as_py()
    if not distinct_count:
        return Column(name, "empty", values.type, values, distinct_count=0)
    if _is_time(values.type):
        time_type = pa.date32() if pa.types.is_date(values.type) else pa.timestamp("us", "UTC")
        return Column(name, "time", time_type, values, distinct_count)
    if pa.types.is_boolean(values.type):
        return Column(name, "boolean" if distinct_count > 1 else "constant", pa.bool_(), values, distinct_count)
    return _infer_number(name, values, distinct_count, null_texts=())


def _is_usable(values: pa.Array) -> bool:
    """Return whether a model or a key can use the values."""
    if pa.types.is_uint64(values.type) and (pc.max(values).as_py() or 0) >= 1 << 63:
        return False  # the lake has no type for it
    return _is_number(values.type) or bool(pa.types.is_boolean(values.type)) or _is_time(values.type)


def _is_time(value_type: pa.DataType) -> bool:
    return bool(pa.types.is_date(value_type) or pa.types.is_timestamp(value_type))


def _is_number(value_type: pa.DataType) -> bool:
    is_decimal = pa.types.is_decimal(value_type)
    return bool(pa.types.is_integer(value_type) or pa.types.is_floating(value_type) or is_decimal)


def _infer_number(name: str, values: pa.Array, distinct_count: int, null_texts: Sequence[str]) -> Column:
    """Infer the kind of a column of numbers: number, id, constant or infinite."""
    is_integer = pa.types.is_integer(values.type)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    nan_count = 0
    if pa.types.is_floating(values.type):
        nan_count = pc.sum(pc.is_nan(values)).as_py() or 0
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        if pc.any(pc.is_inf(values)).as_py():
            return Column(name, "infinite", pa.float64(), values, distinct_count, null_texts=null_texts)
    value_count = len(values) - values.null_count
    # Amounts that were measured are rarely all whole and all different, so such a column is an id.
    is_id = is_integer and distinct_count == value_count and value_count > FEW_CATEGORIES
    kind: Kind = "constant" if distinct_count == 1 else "id" if is_id else "number"
    stored_type = pa.int64() if is_integer and kind == "id" else pa.float64()
    return Column(name, kind, stored_type, values, distinct_count, null_texts=null_texts, nan_count=nan_count)


def _infer_text(name: str, texts: pa.Array, formats: Sequence[str], decimal_point: str) -> Column:
    texts = _replace_by_null(texts, [""])
    null_texts = [text for text in NULL_TEXTS if pc.any(pc.equal(texts, text)).as_py()]
    values = _replace_by_null(texts, null_texts)
    distinct_count = pc.count_distinct(values).as_py()
    if not distinct_count:
        return Column(name, "empty", pa.string(), values, distinct_count=0)
    time_from_option = find_time_formats(values, formats) if formats else None
    if (numbers := parse_numbers(values, decimal_point)) is not None and not time_from_option:
        number = _infer_number(name, numbers, distinct_count, null_texts)
        # An eight-digit number such as 20130105 is a day.
        if not (number.is_integer and pc.min(numbers).as_py() > 19_000_101 and pc.max(numbers).as_py() < 21_001_231):
            return number
    time = time_from_option or find_time_formats(values)
    if time and (distinct_count > 1 or time_from_option):
        type_of_times = pa.timestamp("us", "UTC")
        return Column(name, "time", type_of_times, time.times, distinct_count, null_texts=null_texts, time=time)
    if numbers is not None:
        return _infer_number(name, numbers, distinct_count, null_texts)
    lower_values = {str(value).lower() for value in pc.unique(values.drop_null()).slice(0, 3)}
    if lower_values == set(BOOLEAN_TEXTS):
        return Column(
            name,
            "boolean",
            pa.bool_(),
            pc.equal(pc.utf8_lower(values), "true"),
            distinct_count=2,
            null_texts=null_texts,
        )
    has_few_classes = distinct_count <= FEW_CLASSES  # `NA` beside `yes` and `no` is not a third class
    return (
        replace(_infer_category(name, values), null_texts=null_texts)
        if has_few_classes
        else _infer_category(name, texts)
    )


def _infer_category(name: str, values: pa.Array) -> Column:
    """Infer the kind of texts that are not numbers, times or booleans: category, id, constant or free text."""
    distinct_count, rows = pc.count_distinct(values).as_py(), len(values) - values.null_count
    max_chars = pc.max(pc.utf8_length(values)).as_py()
    mean_words = pc.mean(pc.count_substring(values, " ")).as_py() + 1
    is_repeated = distinct_count <= MAX_CATEGORIES and distinct_count * ROWS_PER_CATEGORY <= rows
    kind: Kind
    if distinct_count == 1:
        kind = "constant"
    elif max_chars > MAX_CODE_CHARS and mean_words > 2:
        kind = "text"
    elif distinct_count <= FEW_CATEGORIES or is_repeated:
        kind = "category"
    elif distinct_count >= ID_SHARE * rows or mean_words < 2:
        kind = "id"
    else:
        kind = "text"
    return Column(name, kind, pa.string(), values, distinct_count)


def _replace_by_null(texts: pa.Array, null_texts: Sequence[str]) -> pa.Array:
    """Replace the texts that mean a missing value by null."""
    if not null_texts:
        return texts
    is_missing = pc.is_in(texts, value_set=pa.array(null_texts, pa.string()))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), texts)
