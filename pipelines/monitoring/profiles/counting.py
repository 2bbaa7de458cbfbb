"""Counts a file's rows over a reference: memory does not grow with them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
from pipelines.monitoring.profiles.profile import Column, Profile
from pipelines.monitoring.profiles.reference import Category, Number, Reference
from pipelines.monitoring.profiles.sketch import Sketch
from pipelines.monitoring.profiles.slots import SCORE_BINS, Slot, slots
from pipelines.monitoring.profiles.texts import plain

Query = Callable[[ibis.Table], ibis.Table]
Ask = Callable[[Query], Iterator[pa.RecordBatch]]
Day = dt.date | None
"""None: all days together."""
Counted = Iterator[tuple[Day, Slot, Column]]


def count(reference: Reference, path: Path, engine: engines.EngineName = "duckdb", sketch_rows: int = 0) -> Profile:
    """The profile of the rows of a Parquet file.

    Args:
        reference: what to count.
        path: file with the features, and with `score` and the label where they are known.
        engine: what counts.
        sketch_rows: about how many rows, drawn at random where there are more, quantile sketches are made of; 0: none.

    Raises:
        DataError: there is no such file, or it is no Parquet file.
        SpecError: the engine is not installed here.
    """
    there, rows = _told(reference, path)
    wanted = slots(reference, there)
    readable = [one for one in wanted if one.readable] if rows else []
    counted: dict[Slot, Column] = {}
    if readable:
        with engines.open_engine(engine, [str(path)], _schema(readable, there), with_nan=True) as run:
            ask = partial(run, days=None)
            counted = {slot: column for _, slot, column in _counted(ask, reference, readable)}
            if sketch_rows:
                counted |= _sketched(ask, counted, min(1.0, sketch_rows / rows))
    return _profile(reference, wanted, rows, counted)


def count_days(
    reference: Reference, path: Path, day: str, engine: engines.EngineName = "duckdb"
) -> dict[dt.date, Profile]:
    """The profile of each day's rows, without sketches: together they are `count` of the file.

    Args:
        reference: what to count.
        path: as `count` takes it.
        day: column with the rows' date, which none lacks.
        engine: what counts.

    Raises:
        DataError: there is no such file, it is no Parquet file, or has no such column.
        SpecError: the engine is not installed here.
    """
    there, _ = _told(reference, path)
    if day not in there.names:
        raise DataError(f"{path} has no column {day}.", "Give the rows with their date.")
    wanted = slots(reference, there)
    readable = [one for one in wanted if one.readable]
    schema = _schema(readable, there).append(pa.field(day, there.field(day).type))
    counted: dict[Day, dict[Slot, Column]] = {}
    with engines.open_engine(engine, [str(path)], schema, with_nan=True) as run:
        ask = partial(run, days=None)
        sizes = {row[queries.DAY]: int(row["rows"]) for row in _rows(ask(partial(queries.sizes, by=day)))}
        for key, slot, column in _counted(ask, reference, readable, day):
            counted.setdefault(key, {})[slot] = column
    return {key: _profile(reference, wanted, sizes[key], counted.get(key, {})) for key in sorted(sizes)}


def _profile(reference: Reference, wanted: Sequence[Slot], rows: int, counted: Mapping[Slot, Column]) -> Profile:
    return Profile(reference.digest, rows, tuple(counted.get(one) or one.empty(rows) for one in wanted))


def _told(reference: Reference, path: Path) -> tuple[pa.Schema, int]:
    try:
        with pq.ParquetFile(path) as file:
            there, rows = file.schema_arrow, file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is no Parquet file that can be read: {error}.", "Give the scored rows.") from None
    # DuckDB knows no case: of two columns that differ in nothing else it reads the first, whichever is asked for.
    times = Counter(name.lower() for name in there.names)
    if twice := sorted(name for name in reference.names if times[name.lower()] > 1):
        raise DataError(f"{path} has the column {twice[0]!r} twice, but for upper and lower case.", "Rename one.")
    return there, rows


def _schema(readable: Sequence[Slot], there: pa.Schema) -> pa.Schema:
    """Of what is read, as an engine knows types."""
    kinds = {one.name: there.field(one.name).type for one in readable if one.name in there.names}
    return pa.schema({name: _known(kind) for name, kind in kinds.items()})


def _known(kind: pa.DataType) -> pa.DataType:
    """The type as which an engine reads it: none knows half floats, nor decimals of other widths than 128 bits."""
    if pa.types.is_dictionary(kind):
        return _known(kind.value_type)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind):
        return pa.float64() if pa.types.is_decimal256(kind) else pa.decimal128(kind.precision, kind.scale)
    return kind


def _counted(ask: Ask, reference: Reference, readable: Sequence[Slot], by: str = "") -> Counted:
    numbers = {one.name: one for one in (*reference.numbers, reference.score)}
    categories = {one.name: one for one in reference.categories}
    yield from _numbers(ask, [(one, numbers[one.name]) for one in readable if one.kind in {"number", "score"}], by)
    yield from _categories(ask, [(one, categories[one.name]) for one in readable if one.kind == "category"], by)
    yield from _labels(ask, readable, by)


def _numbers(ask: Ask, columns: Sequence[tuple[Slot, Number]], by: str) -> Counted:
    """First as if every value were finite, as nearly all columns are; the others are asked for again, with care."""
    told = list(_asked(ask, columns, by, finite=True))
    yield from told
    odd = {slot for _, slot, column in told if not _finite(column)}
    yield from _asked(ask, [one for one in columns if one[0] in odd], by, finite=False)


def _asked(ask: Ask, columns: Sequence[tuple[Slot, Number]], by: str, *, finite: bool) -> Counted:
    if not columns:
        return
    query = partial(queries.numbers, columns=[column for _, column in columns], by=by, finite=finite)
    for told in _rows(ask(query)):
        for at, (slot, column) in enumerate(columns):
            of = {name.removeprefix(f"{at}."): value for name, value in told.items() if name.startswith(f"{at}.")}
            yield told.get(queries.DAY), slot, _number(slot, column, int(told["rows"]), of)


def _finite(column: Column) -> bool:
    return all(one is None or isfinite(one) for one in (column.minimum, column.maximum))


def _number(slot: Slot, column: Number, rows: int, of: Mapping[str, Any]) -> Column:
    # Of count_if DuckDB 2.0 makes a decimal, and null where there is nothing but nulls.
    known, n, *reached = (int(of[name] or 0) for name in ("known", "n", *queries.steps(column)))
    moments: dict[str, Any] = {name: of[name] or 0.0 for name in ("s1", "s2")}
    moments |= {name: of[name] for name in ("minimum", "maximum")}
    counts = tuple(map(int, np.diff([0, *reached, known])))
    return replace(slot.empty(0), counts=counts, missing=rows - known, n=n, **moments)


def _categories(ask: Ask, columns: Sequence[tuple[Slot, Category]], by: str) -> Counted:
    if not columns:
        return
    places = [{value: at for at, value in enumerate(column.values)} for _, column in columns]
    rests = [None if column.rest is None else set(column.rest) for _, column in columns]
    texts = [plain(column.family) for _, column in columns]
    found: dict[Day, list[list[int]]] = {}
    batches = ask(partial(queries.categories, columns=[column for _, column in columns], by=by))
    for row in (row for batch in batches for row in batch.to_pylist()):
        # The last number is of the missing ones.
        counts = found.setdefault(row.get(queries.DAY), [[0] * (slot.bins + 1) for slot, _ in columns])
        column = row["column"]
        value = None if row["value"] is None else texts[column](row["value"])
        rest = rests[column]
        other = -3 if rest is None or value in rest else -2
        counts[column][-1 if value is None else places[column].get(value, other)] += row["times"]
    for key, all_counts in found.items():
        for (slot, _), of_column in zip(columns, all_counts, strict=True):
            yield key, slot, replace(slot.empty(0), counts=tuple(of_column[:-1]), missing=of_column[-1])


def _labels(ask: Ask, readable: Sequence[Slot], by: str) -> Counted:
    """The label, and score x label, where they are there."""
    by_kind = {one.kind: one for one in readable}
    label, joint = by_kind.get("label"), by_kind.get("joint")
    if label is None:
        return
    score = by_kind["score"].name if joint else ""
    found: dict[Day, list[dict[str, Any]]] = {}
    for cell in _rows(ask(partial(queries.joint, score=score, label=label.name, by=by))):
        found.setdefault(cell.get(queries.DAY), []).append(cell)
    for key, cells in found.items():
        rows = sum(cell["times"] for cell in cells)
        of_label = [sum(cell["times"] for cell in cells if cell["label"] is truth) for truth in (False, True)]
        yield key, label, replace(label.empty(0), counts=tuple(of_label), missing=rows - sum(of_label))
        if joint:
            yield key, joint, _joint(joint, cells, rows)


def _joint(joint: Slot, cells: Sequence[Mapping[str, Any]], rows: int) -> Column:
    counts, sums = [0] * (2 * SCORE_BINS), [0.0] * (2 * SCORE_BINS)
    for cell in cells:
        if cell["label"] is not None and cell["bin"] is not None:
            at = SCORE_BINS * cell["label"] + cell["bin"]
            counts[at], sums[at] = cell["times"], cell["total"] or 0.0
    return replace(joint.empty(0), counts=tuple(counts), sums=tuple(sums), missing=rows - sum(counts))


def _sketched(ask: Ask, counted: dict[Slot, Column], share: float) -> dict[Slot, Column]:
    """The numbers, with sketches of a share of the rows."""
    sketches = {slot: Sketch() for slot, column in counted.items() if slot.kind in {"number", "score"}}
    names = [slot.name for slot in sketches]
    if not names:
        return {}
    for batch in ask(partial(queries.some, columns=names, share=share)):
        for slot, sketch in sketches.items():
            sketch.update(np.asarray(batch[slot.name].drop_null()))
    return {slot: replace(counted[slot], sketch=sketch.to_bytes()) for slot, sketch in sketches.items()}


def _rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]
