"""Read the outcomes of the versions of an A/B test, and sum the values of a metric by day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import duckdb
import numpy as np

from pipelines.dataset import Dataset
from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.sequential import DailySums
from pipelines.features.label_column import build_label_query
from pipelines.lake import Lake, connect
from pipelines.system.duckdb_session import quote_identifier

EPS = "2.220446049250313e-16"
"""Smallest probability in a log loss. It replaces smaller ones, because the logarithm of 0 is infinite. The log loss of
the evaluation uses the same value."""


class Metric(NamedTuple):
    """A metric that is a mean over rows."""

    expression: str
    """SQL for the value of a row of the outcomes."""
    is_greater_better: bool = False


METRICS: Mapping[str, Mapping[str, Metric]] = {
    "binary": {
        "log_loss": Metric(f"-ln(greatest(CASE WHEN label::INT = 1 THEN score ELSE 1 - score END, {EPS}))"),
        "brier": Metric("(score - label::INT) ** 2"),
    },
    "multiclass": {
        "log_loss": Metric(f"-ln(greatest(coalesce(scores[label::VARCHAR], 0), {EPS}))"),
        "accuracy": Metric("(predicted = label::VARCHAR)::INT", is_greater_better=True),
    },
    "regression": {"mae": Metric("abs(score - label)"), "mse": Metric("(score - label) ** 2")},
}
"""Metrics by task. The first one is the default."""

_VALUES_SQL = """
SELECT model_version AS version, {key}, CAST(date AS DATE) AS day, ({expression})::DOUBLE AS value
FROM outcomes WHERE model_name = ? AND list_contains(?, model_version)
"""
# A version can score a row in several variants or endpoints: only its newest score of the row is used.
_ONLINE_SQL = """
CREATE TEMP VIEW outcomes AS
SELECT requests.*, labels.label FROM requests JOIN ({labels}) AS labels USING ({key}) WHERE labels.label IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY model_name, model_version, {key} ORDER BY requested_at DESC, endpoint, variant
) = 1
"""
_SUMS_SQL = "SELECT version, day, count(*), sum(value), sum(value * value) FROM rows GROUP BY ALL"
_COMMON_ROWS_SQL = "SELECT count(*) - count(DISTINCT ({key})) FROM rows"
"""Number of rows that both versions scored."""
MIN_PAIRED_SHARE = 0.5
"""The versions are compared in pairs, on the rows that both scored, if these rows are at least this share of the rows
of the version with fewer rows. In an A/B test, both versions may score a few rows, because clients repeat requests."""
_PAIRED_SUMS_SQL = """
SELECT '', day, count(*), sum(b.value - a.value), sum((b.value - a.value) ** 2)
FROM (SELECT * FROM rows WHERE version = ?) AS a
JOIN (SELECT * FROM rows WHERE version = ?) AS b USING ({key}, day) GROUP BY ALL
"""


class OutcomeSums(NamedTuple):
    """Sums of a metric's values by day."""

    days: Sequence[dt.date]
    """Days with outcomes, in order; in a paired comparison, days with rows that both versions scored."""
    samples: Sequence[DailySums]
    """A sample for each version; or one sample, of paired differences (second version minus first)."""
    row_counts: Sequence[int]
    """Number of rows of each version."""

    @property
    def is_paired(self) -> bool:
        """Whether the two versions are compared in pairs, on the rows that both scored."""
        return len(self.samples) < len(self.row_counts)


def find_metric(dataset: Dataset, name: str) -> tuple[str, Metric]:
    """Return the name and the metric; if the name is empty, the first metric of the task.

    Raises:
        SpecError: the name is not a metric of `METRICS` for this task. A retry cannot help.
    """
    metrics = METRICS[dataset.task]
    name = name or next(iter(metrics))
    if name not in metrics:
        message = f"an A/B test of a {dataset.task} model has no metric {name!r}: its metrics are means over rows."
        raise SpecError(message, f"Choose {' or '.join(metrics)}.")
    return name, metrics[name]


@contextmanager
def create_outcomes_view(
    connection: duckdb.DuckDBPyConnection, lake: Lake, dataset: Dataset, days: tuple[dt.date, dt.date], is_online: bool
) -> Iterator[None]:
    """Create the view `outcomes` of scores with their labels; drop it when the block ends.

    Args:
        connection: connection to create it in.
        lake: lake with the tables.
        dataset: dataset of the rows.
        days: first and last day, both included.
        is_online: True: the scores that endpoints returned (table DATASET_requests). False: the scores of the step
            `score` (table DATASET_outcomes).
    """
    if not is_online:
        with lake.create_view(connection, "outcomes", dataset.outcomes, *days):
            yield
        return
    with (
        lake.create_view(connection, "requests", dataset.requests, *days),
        lake.create_view(connection, "published", dataset.table, *days),
    ):
        labels = build_label_query(dataset, connection, "published")
        connection.execute(_ONLINE_SQL.format(labels=labels, key=", ".join(map(quote_identifier, dataset.key))))
        try:
            yield
        finally:
            connection.execute("DROP VIEW outcomes")


def sum_outcomes(
    lake: Lake,
    dataset: Dataset,
    model: str,
    versions: Sequence[str],
    days: tuple[dt.date, dt.date],
    metric: Metric,
    is_online: bool = False,
) -> OutcomeSums:
    """Sum the values of the metric by day.

    If both versions scored enough of the same rows (`MIN_PAIRED_SHARE`), these rows are compared in pairs. Otherwise,
    the versions are two samples.

    Args:
        lake: lake with the outcomes.
        dataset: dataset of the model.
        model: registered model.
        versions: numbers of one or two versions.
        days: first and last day, both included.
        metric: metric of the dataset's task.
        is_online: see `create_outcomes_view`.

    Raises:
        DataError: a version has no outcomes. A retry can help once labels of its rows are known.
    """
    key = ", ".join(map(quote_identifier, dataset.key))
    with connect() as connection, create_outcomes_view(connection, lake, dataset, days, is_online):
        values_sql = _VALUES_SQL.format(key=key, expression=metric.expression)
        connection.execute(f"CREATE TEMP TABLE rows AS {values_sql}", [model, list(versions)])
        sums = connection.sql(_SUMS_SQL).fetchall()
        row_counts = [sum(row[2] for row in sums if row[0] == version) for version in versions]
        _check_row_counts(model, versions, row_counts)
        sample_names = versions
        common_count = connection.sql(_COMMON_ROWS_SQL.format(key=key)).fetchall()[0][0]
        if common_count and common_count >= MIN_PAIRED_SHARE * min(row_counts):
            sums = connection.execute(_PAIRED_SUMS_SQL.format(key=key), list(versions)).fetchall()
            sample_names = [""]  # the query returns one sample, whose version is empty
    all_days = sorted({row[1] for row in sums})
    return OutcomeSums(all_days, [_build_sample(sums, name, all_days) for name in sample_names], row_counts)


def _check_row_counts(model: str, versions: Sequence[str], row_counts: Sequence[int]) -> None:
    for version, count in zip(versions, row_counts, strict=True):
        if not count:
            message = f"{model} version {version} has no outcomes on these days."
            hint = "Score the days with it, then run `outcomes`. With --online, run `collect` instead."
            raise DataError(message, hint)


def _build_sample(sums: Sequence[tuple[Any, ...]], name: str, days: Sequence[dt.date]) -> DailySums:
    """Build a version's sums from rows (version, day, count, sum, sum of squares); a day without rows has zeros."""
    sums_by_day = {day: values for version, day, *values in sums if version == name}
    return DailySums(*np.array([sums_by_day.get(day, (0, 0.0, 0.0)) for day in days], dtype=float).T)
