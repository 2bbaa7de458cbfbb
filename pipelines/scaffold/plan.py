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
from pipelines.lake import DATE_COLUMN
from pipelines.scaffold import labels
from pipelines.scaffold.columns import Column, infer_columns
from pipelines.scaffold.labels import Label
from pipelines.scaffold.request import AskFunction, Request
from pipelines.scaffold.sampling.sample import Sample
from pipelines.score_columns import PREDICTION_COLUMNS, is_score_column

TIME_NAMES = ("time", "date", "day", "timestamp", "created", "at", "when", "ts")
"""Parts of the names of columns that probably hold the time of the row."""
MAX_EXAMINED_COLUMNS = 15
"""Largest number of columns from which a key is inferred."""
MAX_KEY_COLUMNS = 4
"""Largest number of columns of an inferred key, in addition to the day."""
MAX_SINGLE_COLUMN_AUC = 0.95
"""Largest AUC (or concordance) of one column alone. A column with a larger one is assumed to be known only later."""
MAX_AUC_ROWS = 20_000
"""Largest number of rows from which the AUC of a column alone is computed."""


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
    """Maps each feature to its kind, in the order of the source."""
    known_later: Mapping[str, str]
    """Maps each column that is not known at prediction time to the reason."""
    dropped_columns: Mapping[str, str]
    """Maps each column that is not read to the reason."""
    max_single_column_auc: float
    """Largest AUC (or concordance) of one feature alone."""

    @property
    def has_time_of_day(self) -> bool:
        """Whether the time column has a time of day. False for a column named `date`: it becomes the day."""
        return self.time.lower() not in ("", DATE_COLUMN) and _has_time_of_day(self.columns[self.time])


def make_plan(request: Request, sample: Sample, ask: AskFunction) -> Plan:
    """Choose what each column is for; ask for what cannot be inferred.

    Raises:
        DataError: there is no column of times, or the label has one value only. A retry cannot help.
        SpecError: an option is missing, or names a column that does not exist. A retry cannot help.
    """
    _check_options(request, sample.table.column_names)
    all_columns = infer_columns(sample.table, request.time_formats, request.time, sample.decimal_point)
    columns = {column.name: column for column in all_columns}
    time = _choose_time(request, sample, columns, ask)
    if time and (formats := _ask_for_order(columns[time], ask)):
        columns[time] = next(iter(infer_columns(sample.table.select([time]), formats, time)))
    if time and request.time_formats:
        _check_formats(columns[time], request.time_formats)
    days = _find_days(columns[time or DATE_COLUMN])
    label = labels.choose_label(request, columns, {time, DATE_COLUMN, *request.key}, ask)
    other_names = [name for name in columns if name not in (time, label.name) and name.lower() != DATE_COLUMN]
    time_names = [] if time.lower() in ("", DATE_COLUMN) else [time]
    if request.key:
        _check_key(request.key, sample.table, columns, {label.name, *request.known_later}, days)
    key = request.key or _find_key(sample.table, columns, [*time_names, *other_names], days, ask)
    aucs = {name: _compute_column_auc(columns[name], label) for name in other_names if columns[name].is_feature}
    known_later = dict.fromkeys(request.known_later, "as the option --known-later says")
    for name, value in aucs.items():
        if value > MAX_SINGLE_COLUMN_AUC and name not in (*request.known_before, *request.known_later, *key):
            known_later[name] = (
                f"it alone predicts the label ({value:.2f}); if it is known in time, name it in --known-before"
            )
    features, dropped_columns = _choose_features(other_names, columns, label, {*known_later, *request.known_later}, key)
    if not features:
        message = f"no column of {sample.origin} can be a feature: all are ids, constants, free text or known later."
        raise DataError(message, "Name in --known-before the columns that are known when the prediction is made.")
    max_auc = max((aucs.get(name, 0.5) for name in features), default=0.5)
    return Plan(request, sample, columns, time, days, label, list(key), features, known_later, dropped_columns, max_auc)


def _has_time_of_day(column: Column) -> bool:
    if column.time:
        return column.time.has_time_of_day
    return not pa.types.is_date(column.values.type)


def _check_options(request: Request, names: Sequence[str]) -> None:
    names_by_option = {
        "--time": [request.time],
        "--label": [request.label],
        "--key": request.key,
        "--known-later": request.known_later,
        "--known-before": request.known_before,
    }
    for option, columns in names_by_option.items():
        for column in filter(None, columns):
            if column not in names:
                raise SpecError(f"{option} {column!r} is not a column.", f"The columns are {', '.join(names[:60])}.")


def _choose_time(request: Request, sample: Sample, columns: Mapping[str, Column], ask: AskFunction) -> str:
    """Return the column of the times; empty if the day of a row is in the name of its file."""
    times = [name for name, column in columns.items() if column.kind == "time"]
    if sample.has_files_by_day and not request.time:
        return ""
    if request.time and request.time not in times:
        hint = "Give another column, or the format of its times, for example --time-format %d.%m.%Y."
        raise DataError(f"{request.time}, the column of --time, does not hold dates or times.", hint)
    if not times:
        message = f"no column of {sample.origin} holds dates or times, but Leeway needs the day of each row."
        hint = "Add a column with the time of each row. If there is one, name it and its format: --time, --time-format."
        raise DataError(message, hint)
    possible_names = [name for name in times if not columns[name].missing_count] or times
    if all(_find_days(columns[name]).equals(_find_days(columns[possible_names[0]])) for name in possible_names):
        # All have the same days, so one of them is enough: one with a time of day, if there is any.
        possible_names = sorted(possible_names, key=lambda name: not _has_time_of_day(columns[name]))[:1]
    likely_names = [name for name in possible_names if any(part in TIME_NAMES for part in name.lower().split("_"))]
    if len(possible_names) > 1 and likely_names:
        possible_names = likely_names
    time = request.time or (possible_names[0] if len(possible_names) == 1 else "")
    reason = f"{' and '.join(possible_names)} hold times; it is not clear which is the time of the row."
    return _check_time(columns[time or ask("time", reason, possible_names)])


def _check_time(column: Column) -> str:
    """Refuse a column if a row has no time, or a time that cannot be read; return the name of the column."""
    if column.missing_count and not (column.time and column.time.bad_value):
        message = f"{column.missing_count} rows have no {column.name}, so they belong to no day."
        raise DataError(message, "Remove these rows from the source, or give another column: --time.")
    if column.time and column.time.bad_value:
        message = f"column {column.name}: {column.time.bad_value!r} is not a time that can be read."
        raise DataError(message, "Correct it, or give the formats of the times: --time-format, once for each format.")
    return column.name


def _ask_for_order(column: Column, ask: AskFunction) -> list[str]:
    """Ask whether the day or the month comes first, if the times do not show it.

    Returns:
        The formats of the column with the chosen order; empty if there was no need to ask.
    """
    if not (column.time and column.time.ambiguous_formats):
        return []
    reason = f"{column.name}: it is not clear which number is the day and which the month."
    answer = ask("time_format", reason, column.time.ambiguous_formats)
    return [answer if format in column.time.ambiguous_formats else format for format in column.time.formats]


def _check_formats(column: Column, formats: Sequence[str]) -> None:
    """Refuse the formats of --time-format if no value of the column has one of them."""
    if not (column.time and set(formats) & set(column.time.formats)):
        message = f"no value of {column.name} has the format {formats[0]!r} of --time-format"
        raise SpecError(f"{message}.", "ISO 8601 needs no format; others are written as %d.%m.%Y.")


def _find_days(column: Column) -> pa.Array:
    """Return the day of each value of a column of days or times."""
    if pa.types.is_date(column.values.type):
        return column.values.cast(pa.date32())
    return (
        column.values.cast(pa.timestamp("us", column.values.type.tz))
        .cast(pa.timestamp("us"))
        .cast(pa.date32(), safe=False)
    )


def _find_key(
    table: pa.Table, columns: Mapping[str, Column], names: Sequence[str], days: pa.Array, ask: AskFunction
) -> list[str]:
    """Return the fewest columns that identify a row within its day: ids first, then times, categories and numbers."""
    order = {"id": 0, "time": 1, "category": 2, "number": 3, "boolean": 4, "text": 5}
    usable_columns = [columns[name] for name in names if columns[name].kind in order]
    complete_columns = [column for column in usable_columns if not column.missing_count]
    complete_columns.sort(key=lambda column: (order[column.kind], -column.distinct_count))
    possible_names = [column.name for column in complete_columns[:MAX_EXAMINED_COLUMNS]]
    codes = {name: pd.factorize(table[name].to_pandas())[0] for name in possible_names}
    day_codes = pd.factorize(days.to_pandas())[0]
    for size in range(1, MAX_KEY_COLUMNS + 1):
        for group in itertools.combinations(possible_names, size):
            if _is_unique([day_codes, *(codes[name] for name in group)]):
                return list(group)
    reason = "no columns identify a row within its day: several rows are equal in all columns that a key could have."
    return ask("key", reason, possible_names).split(",")


def _check_key(
    names: Sequence[str], table: pa.Table, columns: Mapping[str, Column], known_later_names: set[str], days: pa.Array
) -> None:
    """Refuse a key with a column that is known only later, or that does not identify each row of a day."""
    for name in names:
        if columns[name].kind == "other":
            raise SpecError(f"--key {name}: a key cannot have the type {table[name].type}.", "Give other columns.")
        if name in known_later_names:
            raise SpecError(
                f"--key {name}: the column is not known when the prediction is made.", "Give other columns."
            )
        if columns[name].missing_count:
            message = f"--key {name}: {columns[name].missing_count} rows have no value in this column."
            raise DataError(message, "Give other columns.")
    codes = [pd.factorize(values)[0] for values in (days.to_pandas(), *(table[name].to_pandas() for name in names))]
    if not _is_unique(codes):
        raise DataError(f"--key {', '.join(names)}: several rows of a day have the same key.", "Give more columns.")


def _is_unique(codes: Sequence[Any]) -> bool:
    """Return whether no two rows have the same codes.

    Args:
        codes: for each column, an array of shape (rows,), in which equal values have the same number, from 0.
    """
    combined_codes = np.zeros(len(codes[0]), dtype=np.int64)
    for values in codes:
        combined_codes = pd.factorize(combined_codes * (int(values.max()) + 1) + values)[0].astype(np.int64)
    return int(combined_codes.max()) + 1 == len(combined_codes)


def _compute_column_auc(column: Column, label: Label) -> float:
    """Compute how well a column alone predicts the label: AUC (for several classes, the largest), or concordance."""
    from pipelines.evaluation.gates.leakage import compute_concordance_alone

    rows = min(len(column.values), MAX_AUC_ROWS)
    positions = np.linspace(0, len(column.values) - 1, rows).astype(int)
    values = column.values.to_pandas().iloc[positions].reset_index(drop=True)
    concordances = []
    for target, has_label in label.list_targets():
        mask = has_label[positions]
        concordances.append(compute_concordance_alone(target[positions][mask], values[mask].reset_index(drop=True)))
    return max(concordances)


def _choose_features(
    names: Sequence[str], columns: Mapping[str, Column], label: Label, known_later_names: set[str], key: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the features with their kinds, and the columns that are not read with the reason."""
    features, dropped_columns = dict[str, str](), dict[str, str]()
    reasons = {
        "id": "an id",
        "constant": "it has one value",
        "empty": "it is empty",
        "text": "free text",
        "time": "a time, but not that of the row",
        "infinite": "it has infinite values",
        "unnamed": "its name is empty",
        "other": "no model can use its type",
    }
    for name in names:
        column = columns[name]
        if name in known_later_names:
            continue
        if _is_reserved(name, label.task, is_key=name in key):
            dropped_columns[name] = "the tables of predictions use the name; rename it in the source"
        elif column.is_feature:
            features[name] = "category" if column.kind == "category" else "number"
        elif name not in key:
            dropped_columns[name] = reasons[column.kind]
    return features, dropped_columns


def _is_reserved(name: str, task: Task, *, is_key: bool) -> bool:
    lower_name = name.lower()
    is_prediction_column = is_key and lower_name in PREDICTION_COLUMNS
    return is_score_column(lower_name, is_binary=task == "binary") or is_prediction_column
