"""Give each row the values of its lookups that were known before its partition: those of an earlier partition.

This applies to lookups whose key does not name the partition (`date`, for hours also `hour`). A request gets the newest
value in the online store. The partition of the request is not published yet, so this value is of an earlier partition.
Training and batch scoring compute the same value from the rows in the lake, so that they see what the endpoint saw.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial
from typing import Protocol

import ibis
import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.columns import (
    KEY_PREFIX,
    build_default,
    compute_columns,
    list_lookups_of_earlier_partitions,
    select_feature,
    select_keys,
)
from pipelines.features.engines import RunExpression
from pipelines.lookups import Lookup
from pipelines.partitions import HOUR_COLUMN, Partition, find_partition, get_begin, get_date
from pipelines.window import Days

# Names of temporary columns:
BEGIN = "leeway.begin"
"""Start of the row's partition."""
VALUE_BEGIN = "leeway.value_begin"
"""Start of the partition that a lookup's value comes from."""
VALUE_PREFIX = "leeway.value."
"""Prefix of the columns that hold a lookup's values, beside the features of the row itself."""
RANK = "leeway.rank"
"""Rank of the value by age, 0 for the newest."""
COUNT = "leeway.count"
"""Number of different values of a key in one partition."""


class BuildFeatures(Protocol):
    """A function that builds the features of rows. Looked-up features are those of `replace_looked_up_features`."""

    def __call__(self, dataset: Dataset, rows: ibis.Table, since: dt.datetime | None) -> ibis.Table:
        """Return the features of the rows whose partition begins at `since` or later; None: all rows."""


def find_first_needed_partition(dataset: Dataset, first: Partition) -> Partition:
    """Return the first partition whose rows are needed to build the features of the partition `first`."""
    return find_partition(_find_first_begin(dataset, get_begin(first)), dataset.partition)


def find_first_needed_day(dataset: Dataset, begin: dt.datetime) -> dt.date:
    """Return the first day whose rows are needed for features of partitions that begin at `begin`, UTC, or later."""
    return get_date(find_partition(_find_first_begin(dataset, begin), dataset.partition))


def _find_first_begin(dataset: Dataset, begin: dt.datetime) -> dt.datetime:
    """Return the earliest moment whose values may go into features of a partition that begins at `begin`."""
    return begin - max(
        (lookup.max_age for lookup in list_lookups_of_earlier_partitions(dataset)), default=dt.timedelta(0)
    )


def run_features(
    engine: RunExpression, dataset: Dataset, build: BuildFeatures, begin: dt.datetime, last: dt.date
) -> Iterator[pa.RecordBatch]:
    """Build the features of a range of partitions on an engine; yield them in batches.

    Args:
        engine: open engine; it has at least the rows from `find_first_needed_partition` on.
        dataset: dataset of the rows.
        build: function that builds the features.
        begin: start of the first partition, UTC. If no lookup needs an earlier partition, the features of all rows of
            this day are built, even those of earlier hours.
        last: last `date` of the rows.

    Raises:
        DataError: a key of a lookup has several values in a partition. A retry cannot help.
    """
    if not list_lookups_of_earlier_partitions(dataset):
        return engine(lambda rows: build(dataset, rows, since=None), Days(begin.date(), last))
    days = Days(find_first_needed_day(dataset, begin), last)
    for lookup in list_lookups_of_earlier_partitions(dataset):
        for batch in engine(partial(_find_ambiguous_key, dataset, lookup), days):
            for row in batch.to_pylist():
                key = ", ".join(f"{name} {row[KEY_PREFIX + name]}" for name in lookup.key)
                problem = f"has several values for {key} in the partition that begins {row[VALUE_BEGIN]}"
                raise DataError(f"the lookup {lookup.name!r} of {dataset.name} {problem}.", "Correct its key.")
    return engine(lambda rows: build(dataset, rows, since=begin), days)


def replace_looked_up_features(dataset: Dataset, columns: ibis.Table, since: dt.datetime | None) -> ibis.Table:
    """Replace looked-up features by the newest value of an earlier partition, or by their defaults.

    The default is used if no value is within the lookup's `max_age`. Features of lookups whose key names the partition
    do not change.

    Args:
        dataset: dataset of the rows.
        columns: the rows with all their features, as `compute_columns` returned them.
        since: start (UTC) of the first partition whose rows are returned; None: all rows are returned.
    """
    lookups = list_lookups_of_earlier_partitions(dataset)
    if not lookups:
        return columns
    names = columns.columns
    columns = columns.mutate(**{BEGIN: _compute_begin(dataset, columns)})
    for lookup in lookups:
        columns = _replace_features(dataset, lookup, columns)
    if since is not None:
        columns = columns.filter(columns[BEGIN] >= ibis.literal(since.replace(tzinfo=None)))
    return columns.select(*names)


def _compute_begin(dataset: Dataset, rows: ibis.Table) -> ibis.Column:
    """Return the start of each row's partition."""
    begin = rows["date"].cast("timestamp")
    if dataset.partition == "hour":
        begin = begin + rows[HOUR_COLUMN].cast("int64").as_interval("h")
    return begin


def _select_values(dataset: Dataset, lookup: Lookup, columns: ibis.Table) -> ibis.Table:
    """Return each partition's values of a lookup: begin, key and features. Equal values occur once."""
    complete_rows = columns.filter(*(columns[name].notnull() for name in lookup.key))
    features = [select_feature(dataset, complete_rows, name).name(VALUE_PREFIX + name) for name in lookup.features]
    keys = select_keys(complete_rows, lookup.key)
    return complete_rows.select(complete_rows[BEGIN].name(VALUE_BEGIN), *keys, *features).distinct()


def _find_ambiguous_key(dataset: Dataset, lookup: Lookup, rows: ibis.Table) -> ibis.Table:
    """Return one key that has several values in a partition, as a row; no row if there is none."""
    columns = compute_columns(dataset, rows)
    values = _select_values(dataset, lookup, columns.mutate(**{BEGIN: _compute_begin(dataset, columns)}))
    keys = [VALUE_BEGIN, *(KEY_PREFIX + name for name in lookup.key)]
    counts = values.group_by(keys).agg(**{COUNT: values.count()})
    return counts.filter(counts[COUNT] > 1).limit(1)


def _replace_features(dataset: Dataset, lookup: Lookup, columns: ibis.Table) -> ibis.Table:
    """Replace the features of one lookup, as `replace_looked_up_features` does for all lookups."""
    keys = [KEY_PREFIX + name for name in lookup.key]
    values = _select_values(dataset, lookup, columns)
    row_keys = columns.select(columns[BEGIN], *select_keys(columns, lookup.key)).distinct()
    age_conditions = [
        values[VALUE_BEGIN] < row_keys[BEGIN],
        values[VALUE_BEGIN] >= row_keys[BEGIN] - ibis.interval(seconds=int(lookup.max_age.total_seconds())),
    ]
    pairs = row_keys.join(values, [*(row_keys[key] == values[key] for key in keys), *age_conditions], rname="{name}.2")
    newest_first = ibis.window(
        group_by=[pairs[BEGIN], *(pairs[key] for key in keys)], order_by=pairs[VALUE_BEGIN].desc()
    )
    ranked_rows = pairs.mutate(**{RANK: ibis.row_number().over(newest_first)})
    newest_rows = ranked_rows.filter(ranked_rows[RANK] == 0).drop(
        RANK, *(name for name in pairs.columns if name.endswith(".2"))
    )
    rows = columns.mutate(*select_keys(columns, lookup.key))
    joined_rows = rows.left_join(newest_rows, [BEGIN, *keys], rname="{name}.2")
    replaced_columns = {
        name: ibis.ifelse(
            joined_rows[VALUE_BEGIN].notnull(), joined_rows[VALUE_PREFIX + name], build_default(dataset, lookup, name)
        )
        for name in lookup.features
    }
    return joined_rows.mutate(**replaced_columns).select(*columns.columns)
