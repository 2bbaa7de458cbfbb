"""The expectations that this package evaluates in DuckDB: the arguments of each, and the function that makes its check.

Great Expectations has all but three of them, and its pandas engine gives the same verdicts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.validation.suites import arguments
from pipelines.validation.suites import column_checks as columns
from pipelines.validation.suites import row_checks as values
from pipelines.validation.suites import table_checks as table
from pipelines.validation.suites import unique_checks as others
from pipelines.validation.suites.checks import Check
from pipelines.validation.suites.rows import Rows

Maker = Callable[[Any, Rows], Check | None]
"""Makes the check for some rows; None where the columns' types need Great Expectations' own evaluation."""

ADDED_EXPECTATIONS: dict[str, tuple[type[arguments.Arguments], Maker]] = {
    "expect_partition_volume_to_be_in_line": (arguments.Volume, table.volume),
    "expect_partition_to_be_fresh": (arguments.Fresh, table.fresh),
    "expect_rows_to_have_match_in": (arguments.Matched, others.matched),
}
"""Expectations that Great Expectations does not have."""

DUCKDB_EXPECTATIONS: dict[str, tuple[type[arguments.Arguments], Maker]] = {
    "expect_table_row_count_to_be_between": (arguments.CountBounded, table.row_count_between),
    "expect_table_row_count_to_equal": (arguments.Exactly, table.row_count_equal),
    "expect_table_column_count_to_be_between": (arguments.ColumnCount, table.column_count_between),
    "expect_table_column_count_to_equal": (arguments.Exactly, table.column_count_equal),
    "expect_table_columns_to_match_set": (arguments.ColumnSet, table.columns_match_set),
    "expect_table_columns_to_match_ordered_list": (arguments.ColumnList, table.columns_match_list),
    "expect_column_to_exist": (arguments.Existing, table.column_exists),
    "expect_column_values_to_not_be_null": (arguments.OfValues, values.not_null),
    "expect_column_values_to_be_null": (arguments.OfValues, values.null),
    "expect_column_values_to_be_between": (arguments.ValuesBounded, values.between),
    "expect_column_values_to_be_in_set": (arguments.ValuesInSet, values.in_set),
    "expect_column_values_to_not_be_in_set": (arguments.ValuesInSet, values.not_in_set),
    "expect_column_value_lengths_to_be_between": (arguments.LengthsBounded, values.lengths_between),
    "expect_column_value_lengths_to_equal": (arguments.LengthEqual, values.length_equal),
    "expect_column_values_to_match_regex": (arguments.Pattern, values.match),
    "expect_column_values_to_not_match_regex": (arguments.Pattern, values.not_match),
    "expect_column_pair_values_to_be_equal": (arguments.Pair, values.pair_equal),
    "expect_column_pair_values_a_to_be_greater_than_b": (arguments.PairGreater, values.pair_greater),
    "expect_select_column_values_to_be_unique_within_record": (arguments.Several, values.differ_in_row),
    "expect_column_values_to_be_unique": (arguments.OfValues, others.unique),
    "expect_compound_columns_to_be_unique": (arguments.Several, others.compound_unique),
    "expect_column_min_to_be_between": (arguments.ColumnBounded, columns.aggregate("min")),
    "expect_column_max_to_be_between": (arguments.ColumnBounded, columns.aggregate("max")),
    "expect_column_mean_to_be_between": (arguments.ColumnBounded, columns.aggregate("avg")),
    "expect_column_sum_to_be_between": (arguments.ColumnBounded, columns.aggregate("sum")),
    "expect_column_median_to_be_between": (arguments.ColumnBounded, columns.median),
    "expect_column_stdev_to_be_between": (arguments.ColumnBounded, columns.spread),
    "expect_column_unique_value_count_to_be_between": (arguments.ColumnBounded, columns.distinct_count),
    "expect_column_proportion_of_unique_values_to_be_between": (arguments.ColumnBounded, columns.distinct_share),
    "expect_column_distinct_values_to_be_in_set": (arguments.DistinctSet, columns.distinct_in_set),
    "expect_column_distinct_values_to_contain_set": (arguments.DistinctSet, columns.distinct_contain_set),
    "expect_column_distinct_values_to_equal_set": (arguments.DistinctSet, columns.distinct_equal_set),
    **ADDED_EXPECTATIONS,
}
