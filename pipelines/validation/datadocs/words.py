"""Expectations as sentences that a person can read who never saw Great Expectations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_CHARS = 300
MAX_VALUES = 12
"""Of a set that a sentence spells out."""

_SENTENCES = {
    "expect_table_row_count_to_be_between": "The partition has {between} rows",
    "expect_table_row_count_to_equal": "The partition has exactly {value} rows",
    "expect_table_column_count_to_be_between": "The partition has {between} columns",
    "expect_table_column_count_to_equal": "The partition has exactly {value} columns",
    "expect_table_columns_to_match_set": "The columns are {column_set}",
    "expect_table_columns_to_match_ordered_list": "The columns are, in this order, {column_list}",
    "expect_column_to_exist": "There is a column {column}",
    "expect_column_values_to_not_be_null": "{column} has a value",
    "expect_column_values_to_be_null": "{column} has no value",
    "expect_column_values_to_be_in_set": "{column} is one of {value_set}",
    "expect_column_values_to_not_be_in_set": "{column} is none of {value_set}",
    "expect_column_values_to_be_between": "{column} is {between}",
    "expect_column_values_to_be_unique": "{column} is unique",
    "expect_column_values_to_match_regex": "{column} matches {regex}",
    "expect_column_values_to_not_match_regex": "{column} does not match {regex}",
    "expect_column_value_lengths_to_equal": "{column} is {value} characters long",
    "expect_column_value_lengths_to_be_between": "The length of {column} is {between} characters",
    "expect_compound_columns_to_be_unique": "{column_list} together are unique",
    "expect_select_column_values_to_be_unique_within_record": "{column_list} differ from each other in a row",
    "expect_column_pair_values_to_be_equal": "{column_A} equals {column_B}",
    "expect_column_pair_values_a_to_be_greater_than_b": "{column_A} is greater than {column_B}",
    "expect_column_min_to_be_between": "The least {column} is {between}",
    "expect_column_max_to_be_between": "The greatest {column} is {between}",
    "expect_column_mean_to_be_between": "The mean of {column} is {between}",
    "expect_column_median_to_be_between": "The median of {column} is {between}",
    "expect_column_stdev_to_be_between": "The standard deviation of {column} is {between}",
    "expect_column_sum_to_be_between": "The sum of {column} is {between}",
    "expect_column_unique_value_count_to_be_between": "{column} has {between} different values",
    "expect_column_proportion_of_unique_values_to_be_between": "The share of different values in {column} is {between}",
    "expect_column_distinct_values_to_be_in_set": "The values of {column} are all among {value_set}",
    "expect_column_distinct_values_to_contain_set": "The values of {column} include {value_set}",
    "expect_column_distinct_values_to_equal_set": "The values of {column} are exactly {value_set}",
    "expect_partition_volume_to_be_in_line": "The number of rows is in line with its weekday in past weeks",
    "expect_partition_to_be_fresh": "The newest {column} is at most {max_age_hours} hours before the partition's end",
    "expect_rows_to_have_match_in": "{columns} match {other_columns} of a row of {table}",
}
_SAID = frozenset({"column", "mostly", "batch_id"})
"""Arguments that a sentence has said already, or that say nothing."""


def sentence(kind: str, kwargs: Mapping[str, Any]) -> str:
    """What an expectation asks for, on one line of at most `MAX_CHARS`; any kind, and any arguments."""
    known = _SENTENCES.get(kind)
    try:
        said = known.format_map(_fields(kwargs)) if known else _spelled(kind, kwargs)
    except KeyError:  # an argument is missing: it was not valid, and the page still has to say what it was
        said = _spelled(kind, kwargs)
    return short(f"{said}{_share(kwargs)}", MAX_CHARS)


def short(value: object, limit: int) -> str:
    """The value on one line, cut where it is longer than `limit`."""
    text = " ".join(value.split()) if isinstance(value, str) else shown(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shown(value: object) -> str:
    """A value as a person would write it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {shown(one)}" for key, one in value.items())
    if isinstance(value, list | tuple | set):
        return ", ".join(shown(one) for one in value)
    return str(value)


def _fields(kwargs: Mapping[str, Any]) -> dict[str, str]:
    """The arguments as text, and what sentences make of several of them."""
    texts = {name: _listed(value) if isinstance(value, list) else _raw(value) for name, value in kwargs.items()}
    return {**texts, "between": _between(kwargs)}


def _raw(value: object) -> str:
    # No thousands separator: 2013 may be a year.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else shown(value)


def _listed(values: list[Any]) -> str:
    more = f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
    return ", ".join(_raw(one) for one in values[:MAX_VALUES]) + more


def _between(kwargs: Mapping[str, Any]) -> str:
    least, most = kwargs.get("min_value"), kwargs.get("max_value")
    if least is not None and most is not None and not kwargs.get("strict_min") and not kwargs.get("strict_max"):
        return f"between {shown(least)} and {shown(most)}"
    lower = f"{'more than' if kwargs.get('strict_min') else 'at least'} {shown(least)}"
    upper = f"{'less than' if kwargs.get('strict_max') else 'at most'} {shown(most)}"
    said = [text for text, bound in ((lower, least), (upper, most)) if bound is not None]
    return " and ".join(said) or "any number of"


def _share(kwargs: Mapping[str, Any]) -> str:
    mostly = kwargs.get("mostly")
    if not isinstance(mostly, int | float) or mostly >= 1:
        return ""
    return f", in at least {100 * mostly:.4g} % of the rows"


def _spelled(kind: str, kwargs: Mapping[str, Any]) -> str:
    """An expectation that has no sentence: its name in words, and its arguments."""
    column = f"{shown(kwargs['column'])}: " if "column" in kwargs else ""
    return f"{column}{kind.removeprefix('expect_').replace('_', ' ')}{_rest(kwargs)}"


def _rest(kwargs: Mapping[str, Any]) -> str:
    left = {name: value for name, value in kwargs.items() if name not in _SAID and value is not None}
    return f" ({shown(left)})" if left else ""
