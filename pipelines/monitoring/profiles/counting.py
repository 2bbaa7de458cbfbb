"""Count the rows of a Parquet file in the bins of a reference, in memory that does not grow with the number of rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import DataError
from pipelines.features import engines
from pipelines.monitoring.profiles import queries
from pipelines.monitoring.profiles.category_bins import MISSING, build_bin_finder
from pipelines.monitoring.profiles.column_plans import SCORE_BINS, ColumnPlan, plan_columns
from pipelines.monitoring.profiles.profile import Column, Profile
from pipelines.monitoring.profiles.reference import CategoryBins, NumberBins, Reference

Query = Callable[[ibis.Table], ibis.Table]
"""Builds the expression of a query from the table of rows."""
Execute = Callable[[Query], Iterator[pa.RecordBatch]]
"""Runs a query on an engine, and returns its result."""
Day = dt.date | None
"""The day to which counts belong; None: all days together."""
CountedColumns = Iterator[tuple[Day, ColumnPlan, Column]]
"""The counts of columns, each with its day and its plan."""


def count_file(reference: Reference, path: Path, engine: engines.EngineName = "duckdb") -> Profile:
    """Count all rows of a Parquet file together.

    Args:
        reference: the columns to count and their bins.
        path: file with the features, and with `score` and the label if they are known.
        engine: the engine that counts.

    Raises:
        DataError: the file does not exist, is not a Parquet file, or has columns of equal names. A retry cannot help.
        SpecError: the engine is not installed. A retry cannot help.
    """
    return count_files(reference, [path], engine)


def count_files(reference: Reference, paths: Sequence[Path], engine: engines.EngineName = "duckdb") -> Profile:
    """Count all rows of several Parquet files together. The columns and their types are those of the last file.

    The reference, the engine and the errors are as for `count_file`.
    """
    metadata = [_read_metadata(reference, path) for path in paths]
    schema, rows = metadata[-1][0], sum(count for _, count in metadata)
    plans = plan_columns(reference, schema)
    readable_plans = [plan for plan in plans if plan.is_readable] if rows else []
    columns: dict[ColumnPlan, Column] = {}
    if readable_plans:
        locations, selected_schema = [str(path) for path in paths], _select_schema(readable_plans, schema)
        with engines.open_engine(engine, locations, selected_schema) as run:
            execute = partial(run, days=None)
            counts = chain(
                _count_columns(execute, reference, readable_plans),
                _count_with_models(reference, paths, readable_plans),
            )
            columns = {plan: column for _, plan, column in counts}
    return _build_profile(reference, plans, rows, columns)


def count_days(
    reference: Reference, path: Path, day_column: str, engine: engines.EngineName = "duckdb"
) -> dict[dt.date, Profile]:
    """Count the rows of each day of a Parquet file. The sum of the days equals `count_file`.

    Args:
        reference: the columns to count and their bins.
        path: file as for `count_file`.
        day_column: column with the date of each row, without nulls.
        engine: the engine that counts.

    Returns:
        Maps each day to its profile, in the order of the days.

    Raises:
        DataError: the file does not exist, is not a Parquet file, has columns of equal names, or lacks the column
            `day_column`. A retry cannot help.
        SpecError: the engine is not installed. A retry cannot help.
    """
    schema, _ = _read_metadata(reference, path)
    if day_column not in schema.names:
        raise DataError(f"{path} has no column {day_column}.", "Write the date of each row to this column.")
    plans = plan_columns(reference, schema)
    readable_plans = [plan for plan in plans if plan.is_readable]
    selected_schema = _select_schema(readable_plans, schema).append(pa.field(day_column, schema.field(day_column).type))
    columns: dict[Day, dict[ColumnPlan, Column]] = {}
    with engines.open_engine(engine, [str(path)], selected_schema) as run:
        execute = partial(run, days=None)
        batches = execute(partial(queries.count_rows, day_column=day_column))
        rows_by_day = {row[queries.DAY]: int(row["rows"]) for row in _list_rows(batches)}
        for date, plan, column in chain(
            _count_columns(execute, reference, readable_plans, day_column),
            _count_with_models(reference, [path], readable_plans, day_column),
        ):
            columns.setdefault(date, {})[plan] = column
    return {
        date: _build_profile(reference, plans, rows_by_day[date], columns.get(date, {})) for date in sorted(rows_by_day)
    }


def _build_profile(
    reference: Reference, plans: Sequence[ColumnPlan], rows: int, columns: Mapping[ColumnPlan, Column]
) -> Profile:
    return Profile(reference.digest, rows, tuple(columns.get(plan) or plan.build_empty_column(rows) for plan in plans))


def _read_metadata(reference: Reference, path: Path) -> tuple[pa.Schema, int]:
    """Read the schema and the number of rows of a file."""
    try:
        with pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        message = f"{path} cannot be read as a Parquet file: {error}."
        raise DataError(message, "Give the path of a Parquet file with the scored rows.") from None
    # DuckDB ignores case in names: of two columns that differ only in case DuckDB always reads the first.
    name_counts = Counter(name.lower() for name in schema.names)
    if duplicates := sorted(name for name in reference.names if name_counts[name.lower()] > 1):
        raise DataError(f"{path} has the column {duplicates[0]!r} twice, ignoring case.", "Rename one of them.")
    return schema, rows


def _select_schema(plans: Sequence[ColumnPlan], schema: pa.Schema) -> pa.Schema:
    """Select the columns to read, with types that the engines support."""
    types = {plan.name: schema.field(plan.name).type for plan in plans if plan.name in schema.names}
    return pa.schema({name: _convert_type(data_type) for name, data_type in types.items()})


def _convert_type(data_type: pa.DataType) -> pa.DataType:
    """Return a type that DuckDB and Spark support. They lack half floats, decimal32, decimal64 and decimal256."""
    if pa.types.is_dictionary(data_type):
        return _convert_type(data_type.value_type)
    if pa.types.is_float16(data_type):
        return pa.float32()
    if pa.types.is_decimal(data_type) and not pa.types.is_decimal128(data_type):
        return (
            pa.float64() if pa.types.is_decimal256(data_type) else pa.decimal128(data_type.precision, data_type.scale)
        )
    return data_type


def _count_columns(
    execute: Execute, reference: Reference, readable_plans: Sequence[ColumnPlan], day_column: str = ""
) -> CountedColumns:
    targets = [reference.target] if reference.target else []
    numbers = {number.name: number for number in (*reference.numbers, reference.score, *targets)}
    categories = {category.name: category for category in reference.categories}
    number_plans = [(plan, numbers[plan.name]) for plan in readable_plans if plan.name in numbers]
    category_plans = [(plan, categories[plan.name]) for plan in readable_plans if plan.kind == "category"]
    yield from _count_numbers(execute, number_plans, day_column)
    yield from _count_categories(execute, category_plans, day_column)
    count_outcomes = _count_errors if reference.target else _count_labels
    yield from count_outcomes(execute, readable_plans, day_column)


def _count_numbers(
    execute: Execute, columns: Sequence[tuple[ColumnPlan, NumberBins]], day_column: str
) -> CountedColumns:
    """Count number columns. The first query assumes finite values only, which is faster and nearly always right.

    A column with infinite values or NaN is counted again by a second query, and yielded a second time with the correct
    counts.
    """
    counts = list(_query_numbers(execute, columns, day_column, assume_finite=True))
    yield from counts
    plans_to_repeat = {plan for _, plan, column in counts if not _is_finite(column)}
    yield from _query_numbers(
        execute, [pair for pair in columns if pair[0] in plans_to_repeat], day_column, assume_finite=False
    )


def _query_numbers(
    execute: Execute, columns: Sequence[tuple[ColumnPlan, NumberBins]], day_column: str, *, assume_finite: bool
) -> CountedColumns:
    if not columns:
        return
    query = partial(
        queries.count_numbers,
        columns=[bins for _, bins in columns],
        day_column=day_column,
        assume_finite=assume_finite,
    )
    for row in _list_rows(execute(query)):
        for position, (plan, bins) in enumerate(columns):
            prefix = f"{position}."
            values = {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
            yield row.get(queries.DAY), plan, _build_number_column(plan, bins, int(row["rows"]), values)


def _is_finite(column: Column) -> bool:
    return all(value is None or isfinite(value) for value in (column.minimum, column.maximum))


def _build_number_column(plan: ColumnPlan, bins: NumberBins, rows: int, values: Mapping[str, Any]) -> Column:
    # `known` counts infinite values, too; `n` does not. The count_if of DuckDB 2.0 returns a decimal, and null if all
    # values are null.
    known_count, n, *cumulative = (int(values[name] or 0) for name in ("known", "n", *queries.name_edge_counts(bins)))
    moments: dict[str, Any] = {name: values[name] or 0.0 for name in ("s1", "s2")}
    moments |= {name: values[name] for name in ("minimum", "maximum")}
    counts = tuple(map(int, np.diff([0, *cumulative, known_count])))
    return replace(plan.build_empty_column(rows=0), counts=counts, missing=rows - known_count, n=n, **moments)


def _count_categories(
    execute: Execute, columns: Sequence[tuple[ColumnPlan, CategoryBins]], day_column: str
) -> CountedColumns:
    if not columns:
        return
    find_bins = [build_bin_finder(bins) for _, bins in columns]
    counts_by_day: dict[Day, list[list[int]]] = {}
    batches = execute(partial(queries.count_categories, columns=[bins for _, bins in columns], day_column=day_column))
    for row in (row for batch in batches for row in batch.to_pylist()):
        counts = counts_by_day.setdefault(row.get(queries.DAY), [[0] * (plan.bins + 1) for plan, _ in columns])
        counts[row["column"]][find_bins[row["column"]](row["value"])] += row["row_count"]
    for day, counts_of_day in counts_by_day.items():
        for (plan, _), counts_of_column in zip(columns, counts_of_day, strict=True):
            column = replace(plan.build_empty_column(rows=0), counts=tuple(counts_of_column[:MISSING]))
            yield day, plan, replace(column, missing=counts_of_column[MISSING])


def _count_labels(execute: Execute, readable_plans: Sequence[ColumnPlan], day_column: str) -> CountedColumns:
    """Count the label, and the pairs of score bin and label, if the file has these columns."""
    plan_by_kind = {plan.kind: plan for plan in readable_plans}
    label_plan, joint_plan = plan_by_kind.get("label"), plan_by_kind.get("joint")
    if label_plan is None:
        return
    score = plan_by_kind["score"].name if joint_plan else ""
    cells_by_day: dict[Day, list[dict[str, Any]]] = {}
    for cell in _list_rows(
        execute(partial(queries.count_scores_by_label, score=score, label=label_plan.name, day_column=day_column))
    ):
        cells_by_day.setdefault(cell.get(queries.DAY), []).append(cell)
    for day, cells in cells_by_day.items():
        rows = sum(cell["row_count"] for cell in cells)
        counts = tuple(sum(cell["row_count"] for cell in cells if cell["label"] is value) for value in (False, True))
        column = replace(label_plan.build_empty_column(rows=0), counts=counts, missing=rows - sum(counts))
        yield day, label_plan, column
        if joint_plan:
            yield day, joint_plan, _build_joint_column(joint_plan, cells, rows)


def _count_errors(execute: Execute, readable_plans: Sequence[ColumnPlan], day_column: str) -> CountedColumns:
    """Count the rows with score and label, and add up their errors, if the file has these columns."""
    plan_by_kind = {plan.kind: plan for plan in readable_plans}
    if (error_plan := plan_by_kind.get("error")) is None:
        return
    score, label = plan_by_kind["score"].name, plan_by_kind["label"].name
    for row in _list_rows(execute(partial(queries.sum_errors, score=score, label=label, day_column=day_column))):
        sums, rows = (row["absolute"] or 0.0, row["squared"] or 0.0), int(row["labelled"])
        missing = int(row["rows"]) - rows
        column = replace(error_plan.build_empty_column(rows=0), counts=(rows,), sums=sums, missing=missing)
        yield row.get(queries.DAY), error_plan, column


def _count_with_models(
    reference: Reference, paths: Sequence[Path], readable_plans: Sequence[ColumnPlan], day_column: str = ""
) -> CountedColumns:
    """Count the columns that need the reference's models: estimated errors, and classes; nothing without models."""
    loss_plans, class_plans = ([plan for plan in readable_plans if plan.kind == kind] for kind in ("loss", "class"))
    if loss_plans:
        from pipelines.monitoring.profiles.losses import estimate_losses  # loads xgboost

        yield from estimate_losses(reference, paths, loss_plans[0], day_column)
    if class_plans:
        from pipelines.monitoring.profiles.class_scores import count_classes  # loads scikit-learn

        yield from count_classes(reference, paths, class_plans, day_column)


def _build_joint_column(joint_plan: ColumnPlan, cells: Sequence[Mapping[str, Any]], rows: int) -> Column:
    counts, sums = [0] * (2 * SCORE_BINS), [0.0] * (2 * SCORE_BINS)
    for cell in cells:
        if cell["label"] is not None and cell["bin"] is not None:
            position = SCORE_BINS * cell["label"] + cell["bin"]
            counts[position], sums[position] = cell["row_count"], cell["total"] or 0.0
    return replace(
        joint_plan.build_empty_column(rows=0), counts=tuple(counts), sums=tuple(sums), missing=rows - sum(counts)
    )


def _list_rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]
