"""The expectations that DuckDB evaluates: for each, the class of its arguments and the function that makes its check.

`ADDED_EXPECTATIONS` exist only in Leeway. Great Expectations has all others; its pandas engine gives the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.validation.evaluators import (
    arguments,
    column_checks,
    completeness_checks,
    row_checks,
    table_checks,
    unique_checks,
)
from pipelines.validation.evaluators.checks import Check
from pipelines.validation.evaluators.rows import Rows

SHRINK = "expect_partition_not_to_shrink"
EARLY_END = "expect_partition_not_to_end_early"
COMPLETENESS = (SHRINK, EARLY_END)
"""Expectations that are part of every suite."""

CheckMaker = Callable[[Any, Rows], Check | None]
"""Takes the arguments and the rows, returns the check; None if the types of the columns need Great Expectations."""

ADDED_EXPECTATIONS: dict[str, tuple[type[arguments.Arguments], CheckMaker]] = {
    "expect_partition_volume_to_be_in_line": (arguments.VolumeArguments, table_checks.make_volume_check),
    "expect_partition_to_be_fresh": (arguments.FreshnessArguments, table_checks.make_freshness_check),
    SHRINK: (arguments.ShrinkArguments, completeness_checks.make_shrink_check),
    EARLY_END: (arguments.EarlyEndArguments, completeness_checks.make_early_end_check),
    "expect_rows_to_have_match_in": (arguments.MatchInTable, unique_checks.make_match_check),
}
"""Maps each type of expectation that only Leeway has to the class of its arguments and the function for its check."""

DUCKDB_EXPECTATIONS: dict[str, tuple[type[arguments.Arguments], CheckMaker]] = {
    "expect_table_row_count_to_be_between": (arguments.CountRange, table_checks.make_row_count_range_check),
    "expect_table_row_count_to_equal": (arguments.ExactCount, table_checks.make_row_count_check),
    "expect_table_column_count_to_be_between": (arguments.ColumnCountRange, table_checks.make_column_count_range_check),
    "expect_table_column_count_to_equal": (arguments.ExactCount, table_checks.make_column_count_check),
    "expect_table_columns_to_match_set": (arguments.ColumnSet, table_checks.make_column_set_check),
    "expect_table_columns_to_match_ordered_list": (arguments.ColumnList, table_checks.make_column_list_check),
    "expect_column_to_exist": (arguments.ExistingColumn, table_checks.make_existing_column_check),
    "expect_column_values_to_not_be_null": (arguments.ValueArguments, row_checks.make_not_null_check),
    "expect_column_values_to_be_null": (arguments.ValueArguments, row_checks.make_null_check),
    "expect_column_values_to_be_between": (arguments.ValueRange, row_checks.make_range_check),
    "expect_column_values_to_be_in_set": (arguments.ValueSet, row_checks.make_set_check),
    "expect_column_values_to_not_be_in_set": (arguments.ValueSet, row_checks.make_excluded_set_check),
    "expect_column_value_lengths_to_be_between": (arguments.LengthRange, row_checks.make_length_range_check),
    "expect_column_value_lengths_to_equal": (arguments.ExactLength, row_checks.make_length_check),
    "expect_column_values_to_match_regex": (arguments.Pattern, row_checks.make_pattern_check),
    "expect_column_values_to_not_match_regex": (
        arguments.ExcludedPattern,
        row_checks.make_excluded_pattern_check,
    ),
    "expect_column_pair_values_to_be_equal": (arguments.ColumnPair, row_checks.make_equal_pair_check),
    "expect_column_pair_values_a_to_be_greater_than_b": (arguments.OrderedPair, row_checks.make_ordered_pair_check),
    "expect_select_column_values_to_be_unique_within_record": (
        arguments.SeveralColumns,
        row_checks.make_different_values_check,
    ),
    "expect_column_values_to_be_unique": (arguments.ValueArguments, unique_checks.make_unique_check),
    "expect_compound_columns_to_be_unique": (arguments.SeveralColumns, unique_checks.make_unique_combination_check),
    "expect_column_min_to_be_between": (arguments.AggregateRange, column_checks.build_aggregate_check_maker("min")),
    "expect_column_max_to_be_between": (arguments.AggregateRange, column_checks.build_aggregate_check_maker("max")),
    "expect_column_mean_to_be_between": (arguments.AggregateRange, column_checks.build_aggregate_check_maker("avg")),
    "expect_column_sum_to_be_between": (arguments.AggregateRange, column_checks.build_aggregate_check_maker("sum")),
    "expect_column_median_to_be_between": (arguments.AggregateRange, column_checks.make_median_check),
    "expect_column_stdev_to_be_between": (arguments.AggregateRange, column_checks.make_standard_deviation_check),
    "expect_column_unique_value_count_to_be_between": (
        arguments.DistinctCountRange,
        column_checks.make_distinct_count_check,
    ),
    "expect_column_proportion_of_unique_values_to_be_between": (
        arguments.AggregateRange,
        column_checks.make_distinct_share_check,
    ),
    "expect_column_distinct_values_to_be_in_set": (
        arguments.DistinctValueSet,
        column_checks.make_distinct_in_set_check,
    ),
    "expect_column_distinct_values_to_contain_set": (
        arguments.DistinctValueSet,
        column_checks.make_distinct_contain_set_check,
    ),
    "expect_column_distinct_values_to_equal_set": (
        arguments.DistinctValueSet,
        column_checks.make_distinct_equal_set_check,
    ),
    **ADDED_EXPECTATIONS,
}
"""Maps each type of expectation that DuckDB evaluates to the class of its arguments and the function for its check."""

CONDITIONAL_EXPECTATIONS = frozenset(
    name
    for name in DUCKDB_EXPECTATIONS.keys() - ADDED_EXPECTATIONS.keys()
    if not name.startswith(("expect_table_column", "expect_column_to_exist"))
)
"""Types of expectations that can have a `row_condition`."""
