"""Choose what each column of a sample is for: time, label, key, features, and columns that are known too late."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.dataset import Task
from pipelines.errors import DataError, SpecError
from pipelines.lake import PARTITION
from pipelines.scaffold import labels
from pipelines.scaffold.columns import Column, infer_columns
from pipelines.scaffold.labels import Label
from pipelines.scaffold.request import Ask, Request
from pipelines.scaffold.sampling.sample import Sample
from pipelines.score_columns import PREDICTION_COLUMNS, is_score_column

TIME_NAMES = ("time", "date", "day", "timestamp", "created", "at", "when", "ts")
MAX_KEY_COLUMNS = 4
MAX_SOLO = 0.95
"""Largest AUC (or concordance) of one column with the label. A column with more is assumed to be known only later."""
MAX_SOLO_ROWS = 20_000


@dataclass(frozen=True)
class Plan:
    """The purpose of each column."""

    request: Request
    sample: Sample
    columns: Mapping[str, Column]
    time: str
    """Column with the time of a row; empty if the names of the files give the day."""
    days: pa.Array
    """Day of each row of the sample."""
    label: Label
    key: Sequence[str]
    """Columns of the key, in addition to the day."""
    features: Mapping[str, str]
    """Feature to its kind, in the order of the source."""
    later: Mapping[str, str]
    """Columns that are not known at prediction time: name to the reason."""
    dropped: Mapping[str, str]
    """Columns that are not read: name to the reason."""
    solo: float
    """Largest AUC (or concordance) of one feature with the label."""

    @property
    def has_clock(self) -> bool:
        """Whether the time column has a time of day. A column named `date` loses it and becomes the day."""
        return self.time.lower() not in ("", PARTITION) and _has_clock(self.columns[self.time])


def make_plan(request: Request, sample: Sample, ask: Ask) -> Plan:
    """Choose what each column is for; ask for what cannot be inferred.

    Raises:
        DataError: there is no column of times, or the label has one value only. A retry cannot help.
        SpecError: an option is missing, or names a column that does not exist. A retry cannot help.
    """
    _check_options(request, sample.table.column_names)
    inferred = infer_columns(sample.table, request.time_formats, request.time, sample.decimal_point)
    columns = {column.name: column for column in inferred}
    time = _choose_time(request, sample, columns, ask)
    if time and (formats := _ask_for_order(columns[time], ask)):
        columns[time] = next(iter(infer_columns(sample.table.select([time]), formats, time)))
    if time and request.time_formats:
        _check_formats(columns[time], request.time_formats)
    days = _find_days(columns[time or PARTITION])
    label = labels.choose_label(request, columns, {time, PARTITION, *request.key}, ask)
    rest = [name for name in columns if name not in (time, label.name) and name.lower() != PARTITION]
    times = [] if time.lower() in ("", PARTITION) else [time]
    if request.key:
        _check_key(request.key, sample.table, columns, {label.name, *request.later}, days)
    key = request.key or _find_key(sample.table, columns, [*times, *rest], days, ask)
    solo = {name: _compute_solo(columns[name], label) for name in rest if columns[name].is_feature}
    later = dict.fromkeys(request.later, "as the option --later says")
    for name, value in solo.items():
        if value > MAX_SOLO and name not in (*request.known, *request.later, *key):
            later[name] = f"it alone predicts the label ({value:.2f}); if it is known before, name it in --known"
    features, dropped = _choose_features(rest, columns, label, {*later, *request.later}, key)
    if not features:
        message = f"no column of {sample.place} can be a feature: all are ids, constants, free text or known later."
        raise DataError(message, "Name columns that are known before in --known.")
    largest = max((solo.get(name, 0.5) for name in features), default=0.5)
    return Plan(request, sample, columns, time, days, label, list(key), features, later, dropped, largest)


def _has_clock(column: Column) -> bool:
    if column.time:
        return column.time.has_clock
    return not pa.types.is_date(column.values.type)


def _check_options(request: Request, names: Sequence[str]) -> None:
    given = {
        "--time": [request.time],
        "--label": [request.label],
        "--key": request.key,
        "--later": request.later,
        "--known": request.known,
    }
    for option, columns in given.items():
        for column in filter(None, columns):
            if column not in names:
                raise SpecError(f"{option} {column!r} is no column.", f"The columns: {', '.join(names[:60])}.")


def _choose_time(request: Request, sample: Sample, columns: Mapping[str, Column], ask: Ask) -> str:
    """Return the column of the times; empty if the day of a row is in the name of its file."""
    times = [name for name, column in columns.items() if column.kind == "time"]
    if sample.has_files_by_day and not request.time:
        return ""
    if request.time and request.time not in times:
        hint = "Give another column, or how it is written, for example --time-format %d.%m.%Y."
        raise DataError(f"{request.time}, the column of --time, does not hold dates or times.", hint)
    if not times:
        message = f"no column of {sample.place} holds dates or times, and days are what Leeway works by."
        hint = "Add a column with the time of each row; if there is one, say how it is written: --time, --time-format."
        raise DataError(message, hint)
    complete = [name for name in times if not columns[name].missing] or times
    if all(_find_days(columns[name]).equals(_find_days(columns[complete[0]])) for name in complete):
        complete = sorted(complete, key=lambda name: not _has_clock(columns[name]))[:1]
    named = [name for name in complete if any(part in TIME_NAMES for part in name.lower().split("_"))]
    candidates = complete if len(complete) == 1 or not named else named
    time = request.time or (candidates[0] if len(candidates) == 1 else "")
    time = time or ask("time", f"{', '.join(candidates)} hold times: which is that of the row?", candidates)
    return _check_time(columns[time])


def _check_time(column: Column) -> str:
    if column.missing and not (column.time and column.time.bad_value):
        message = f"{column.missing} rows have no {column.name}, so they belong to no day."
        raise DataError(message, "Remove these rows from the source, or give another column: --time.")
    if column.time and column.time.bad_value:
        message = f"column {column.name}: {column.time.bad_value!r} is not a time that can be read."
        raise DataError(message, "Correct it, or say how times are written: --time-format, once for each format.")
    return column.name


def _ask_for_order(column: Column, ask: Ask) -> list[str]:
    """Return the formats of the column after a person has chosen between ambiguous ones; empty if none is ambiguous."""
    if not (column.time and column.time.ambiguous):
        return []
    reason = f"{column.name}: day and month cannot be told apart."
    answer = ask("time_format", reason, column.time.ambiguous)
    return [answer if format in column.time.ambiguous else format for format in column.time.formats]


def _check_formats(column: Column, formats: Sequence[str]) -> None:
    """Refuse formats if the column has values in none of them."""
    if not (column.time and set(formats) & set(column.time.formats)):
        message = f"no value of {column.name} has the format {formats[0]!r} of --time-format"
        raise SpecError(f"{message}.", "ISO 8601 needs no format; others are written as %d.%m.%Y.")


def _find_days(column: Column) -> pa.Array:
    if pa.types.is_date(column.values.type):
        return column.values.cast(pa.date32())
    return (
        column.values.cast(pa.timestamp("us", column.values.type.tz))
        .cast(pa.timestamp("us"))
        .cast(pa.date32(), safe=False)
    )


def _find_key(
    table: pa.Table, columns: Mapping[str, Column], names: Sequence[str], days: pa.Array, ask: Ask
) -> list[str]:
    """Return the fewest columns that identify a row within its day: ids first, then times, categories and numbers."""
    order = {"id": 0, "time": 1, "category": 2, "number": 3, "truth": 4, "text": 5}
    complete = [name for name in names if not columns[name].missing and columns[name].kind in order]
    candidates = sorted(complete, key=lambda name: (order[columns[name].kind], -columns[name].distinct))[:15]
    codes = {name: pd.factorize(table[name].to_pandas())[0] for name in candidates}
    day_codes = pd.factorize(days.to_pandas())[0]
    for size in range(1, MAX_KEY_COLUMNS + 1):
        for group in itertools.combinations(candidates, size):
            if _is_unique([day_codes, *(codes[name] for name in group)]):
                return list(group)
    reason = "no columns identify a row within its day: several rows are equal in all columns that could."
    return ask("key", reason, candidates).split(",")


def _check_key(
    names: Sequence[str], table: pa.Table, columns: Mapping[str, Column], unknown: set[str], days: pa.Array
) -> None:
    """Refuse a key that is not known at once, or does not identify each row of a day."""
    for name in names:
        if columns[name].kind == "other":
            raise SpecError(f"--key {name}: a key cannot have the type {table[name].type}.", "Give other columns.")
        if name in unknown:
            raise SpecError(f"--key {name}: the column is not known when the row is new.", "Give other columns.")
        if columns[name].missing:
            raise DataError(f"--key {name}: {columns[name].missing} rows have no value of it.", "Give other columns.")
    codes = [pd.factorize(values)[0] for values in (days.to_pandas(), *(table[name].to_pandas() for name in names))]
    if not _is_unique(codes):
        raise DataError(f"--key {', '.join(names)}: rows of a day are equal in it.", "Give more columns.")


def _is_unique(codes: Sequence[Any]) -> bool:
    combined = np.zeros(len(codes[0]), dtype=np.int64)
    for values in codes:
        combined = pd.factorize(combined * (int(values.max()) + 1) + values)[0].astype(np.int64)
    return int(combined.max()) + 1 == len(combined)


def _compute_solo(column: Column, label: Label) -> float:
    """Compute how well a column alone predicts the label: AUC (for several classes, the largest), or concordance."""
    from pipelines.evaluation.gates.leakage import compute_concordance_alone

    rows = min(len(column.values), MAX_SOLO_ROWS)
    steps = np.linspace(0, len(column.values) - 1, rows).astype(int)
    values = column.values.to_pandas().iloc[steps].reset_index(drop=True)
    return max(
        compute_concordance_alone(target[steps][known[steps]], values[known[steps]].reset_index(drop=True))
        for target, known in label.list_targets()
    )


def _choose_features(
    names: Sequence[str], columns: Mapping[str, Column], label: Label, later: set[str], key: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the features with their kinds, and the columns that are not read with the reason."""
    features, dropped = dict[str, str](), dict[str, str]()
    reasons = {
        "id": "an id",
        "constant": "it has one value",
        "empty": "it is empty",
        "text": "free text",
        "time": "another time",
        "infinite": "it has infinite values",
        "unnamed": "its name is empty",
        "other": "no model can use its type",
    }
    for name in names:
        column = columns[name]
        if name in later:
            continue
        if _is_reserved(name, label.task, is_key=name in key):
            dropped[name] = "the tables of predictions use the name; rename it in the source"
        elif column.is_feature:
            features[name] = "category" if column.kind == "category" else "number"
        elif name not in key:
            dropped[name] = reasons[column.kind]
    return features, dropped


def _is_reserved(name: str, task: Task, *, is_key: bool) -> bool:
    lower_name = name.lower()
    is_prediction_column = is_key and lower_name in PREDICTION_COLUMNS
    return is_score_column(lower_name, has_frame=task != "binary") or is_prediction_column
