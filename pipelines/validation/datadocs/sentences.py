"""Describe expectations and their values in sentences, for readers who do not know Great Expectations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_CHARS = 300
"""Maximum number of characters of a sentence."""
MAX_VALUES = 12
"""Largest number of values of a set that a sentence lists."""

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
    "expect_column_min_to_be_between": "The smallest value of {column} is {between}",
    "expect_column_max_to_be_between": "The largest value of {column} is {between}",
    "expect_column_mean_to_be_between": "The mean of {column} is {between}",
    "expect_column_median_to_be_between": "The median of {column} is {between}",
    "expect_column_stdev_to_be_between": "The standard deviation of {column} is {between}",
    "expect_column_sum_to_be_between": "The sum of {column} is {between}",
    "expect_column_unique_value_count_to_be_between": "{column} has {between} different values",
    "expect_column_proportion_of_unique_values_to_be_between": "The share of different values in {column} is {between}",
    "expect_column_distinct_values_to_be_in_set": "The values of {column} are all among {value_set}",
    "expect_column_distinct_values_to_contain_set": "The values of {column} include {value_set}",
    "expect_column_distinct_values_to_equal_set": "The values of {column} are exactly {value_set}",
    "expect_partition_volume_to_be_in_line": "The number of rows is similar to that of earlier weeks or months",
    "expect_partition_to_be_fresh": "The newest {column} is at most {max_age_hours} hours before the partition's end",
    "expect_partition_not_to_shrink": "The partition has no fewer rows than its published version",
    "expect_partition_not_to_end_early": "At its end, the day has not far fewer rows than the published days around it",
    "expect_partition_not_to_be_withdrawn": "No person has withdrawn the partition",
    "expect_rows_to_have_match_in": "{columns} match {other_columns} of a row of {table}",
}
_OMITTED_ARGUMENTS = frozenset({"column", "mostly", "batch_id"})
"""Arguments that `_describe_generically` does not list: the text has them anyway, or a reader does not need them."""


def describe_expectation(kind: str, kwargs: Mapping[str, Any]) -> str:
    """Describe what an expectation requires, in one line of at most `MAX_CHARS`. Accepts any kind and arguments."""
    template = _SENTENCES.get(kind)
    try:
        text = template.format_map(_format_arguments(kwargs)) if template else _describe_generically(kind, kwargs)
    except KeyError:  # an argument or both bounds are missing; the page must still show the expectation
        text = _describe_generically(kind, kwargs)
    return shorten(f"{text}{_format_share(kwargs)}", MAX_CHARS)


def shorten(value: object, limit: int) -> str:
    """Format a value on one line, and cut it if it is longer than `limit` characters."""
    text = " ".join(value.split()) if isinstance(value, str) else format_value(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def format_value(value: object) -> str:
    """Format a value for people: thousands separators, no quotes, no brackets."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {format_value(item)}" for key, item in value.items())
    if isinstance(value, list | tuple | set):
        return ", ".join(format_value(item) for item in value)
    return str(value)


def _format_arguments(kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Format the arguments as text, and add the phrase `between` for a minimum and a maximum."""
    texts = {
        name: _format_list(value) if isinstance(value, list) else _format_plain_value(value)
        for name, value in kwargs.items()
    }
    between = _format_range(kwargs)
    return {**texts, "between": between} if between else texts


def _format_plain_value(value: object) -> str:
    # No thousands separator: 2013 may be a year.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else format_value(value)


def _format_list(values: list[Any]) -> str:
    rest_text = f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
    return ", ".join(_format_plain_value(value) for value in values[:MAX_VALUES]) + rest_text


def _format_range(kwargs: Mapping[str, Any]) -> str:
    """Format a range, such as `between 1 and 5` or `at least 1`; empty without `min_value` and `max_value`."""
    minimum, maximum = kwargs.get("min_value"), kwargs.get("max_value")
    if minimum is not None and maximum is not None and not kwargs.get("strict_min") and not kwargs.get("strict_max"):
        return f"between {format_value(minimum)} and {format_value(maximum)}"
    lower = f"{'more than' if kwargs.get('strict_min') else 'at least'} {format_value(minimum)}"
    upper = f"{'less than' if kwargs.get('strict_max') else 'at most'} {format_value(maximum)}"
    phrases = [text for text, bound in ((lower, minimum), (upper, maximum)) if bound is not None]
    return " and ".join(phrases)


def _format_share(kwargs: Mapping[str, Any]) -> str:
    """Format the share of rows that `mostly` requires; empty if all rows are required."""
    mostly = kwargs.get("mostly")
    if not isinstance(mostly, int | float) or mostly >= 1:
        return ""
    return f", in at least {100 * mostly:.4g} % of the rows"


def _describe_generically(kind: str, kwargs: Mapping[str, Any]) -> str:
    """Describe an expectation that has no sentence: its name in words, and its arguments."""
    column = f"{format_value(kwargs['column'])}: " if "column" in kwargs else ""
    other_arguments = {
        name: value for name, value in kwargs.items() if name not in _OMITTED_ARGUMENTS and value is not None
    }
    arguments = f" ({format_value(other_arguments)})" if other_arguments else ""
    return f"{column}{kind.removeprefix('expect_').replace('_', ' ')}{arguments}"
