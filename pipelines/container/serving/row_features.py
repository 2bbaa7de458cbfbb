"""Turn the rows of a request into features: check the rows, compute features, look up others in the online store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa

from pipelines.container.serving.compiled_features import CompiledFeatures
from pipelines.container.serving.feature_query import FeatureQuery
from pipelines.container.serving.lookups import LOOKUP_TIMEOUT_S, LookupReader, LookupResult
from pipelines.container.serving.online_records import OnlineRecords
from pipelines.container.serving.raw_rows import RawRows
from pipelines.container.serving.tables import BadRequest, Table
from pipelines.container.serving.values import build_array

DATE, HOUR = "date", "hour"
"""Columns of the partition of a row. Only rows of a dataset with partitions by hour have the column `hour`."""


@dataclass(frozen=True)
class CheckedRows:
    """Rows of one or several requests, whose columns and types were checked."""

    values: Mapping[str, Sequence[Any]]
    """Maps each column that is used to its values, one for each row. A column that some row lacks is left out."""
    count: int
    """Number of rows."""
    partition_starts: Sequence[dt.datetime] = ()
    """Beginning of the partition of each row, in UTC; empty if it is not needed, or not known."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows, with `partition_starts` if known. Only requests with equal columns can be merged."""
        return (*self.values, *(["partition_starts"] if self.partition_starts else []))


@dataclass(frozen=True)
class ComputedRows:
    """Features that are computed from the rows of one or several requests, and the keys of looked-up features."""

    table: pa.Table
    """Computed features, and columns of the lookups' keys."""
    partition_starts: Sequence[dt.datetime] = ()
    """Beginning of the partition of each row, in UTC; empty if it is not needed, or not known."""
    key: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Maps each column of the rows' key to its values, one for each row. A column that `CheckedRows.values`
    lacks is left out."""

    def slice(self, begin: int, count: int) -> ComputedRows:
        """Return `count` of the rows, from the position `begin`."""
        end = begin + count
        key = {name: values[begin:end] for name, values in self.key.items()}
        return ComputedRows(self.table.slice(begin, count), self.partition_starts[begin:end], key)


class RowFeatures:
    """Computes and looks up the features of rows. Only one thread at a time may use it, but several may call `look_up`.

    Args:
        compiled: how rows become features.
        connection: a connection that `feature_query.connect` opened, and that only this object uses.
        lookups: looks up features; None if all are computed from the rows.
        has_keys: whether the results also have the rows' key and partition. If a row of the request lacks a column of
            them, the results lack it, too.

    Raises:
        duckdb.Error: DuckDB cannot run the compiled SQL. A retry cannot help.
    """

    def __init__(
        self,
        compiled: CompiledFeatures,
        connection: duckdb.DuckDBPyConnection,
        lookups: LookupReader | None = None,
        *,
        has_keys: bool = False,
    ) -> None:
        query = compiled.lookup_query if lookups and compiled.lookup_query else compiled.query
        self.compiled, self.lookups = compiled, lookups
        self.columns = query.columns
        """Columns that every row must have."""
        self._partition_columns = (DATE, HOUR) if compiled.partition == "hour" else (DATE,)
        optional = [*compiled.key, *self._partition_columns] if has_keys else []
        self._rows = RawRows(compiled.row_schema, compiled.key, compiled.known_later, query.columns, optional)
        self._query, self._compiled_query = FeatureQuery(query, compiled.row_schema, connection), query
        self._needs_partition, self._has_keys = bool(lookups), has_keys
        lookup_features = {name for lookup in lookups.lookups for name in lookup.features} if lookups else set[str]()
        self.features_of_other_rows = [name for name in compiled.features_of_other_rows if name not in lookup_features]
        """Features that depend on other rows and are not looked up: they are computed from the request's rows alone."""

    def compute(self, table: Table) -> ComputedRows:
        """Compute the features of the rows of a request.

        Raises:
            BadRequest: the request is wrong; a retry cannot help.
            FeatureError: the query drops or repeats rows; a retry cannot help.
        """
        return self.compute_checked_rows(self.check(table))

    def check(self, table: Table) -> CheckedRows:
        """Check the rows of a request.

        Raises:
            BadRequest: the request is wrong; a retry cannot help.
        """
        values = self._rows.convert(table)
        is_used = self._needs_partition or self._has_keys
        has_partition = is_used and all(name in values for name in self._partition_columns)
        return CheckedRows(values, len(table.rows), self._list_partition_starts(values) if has_partition else ())

    def compute_checked_rows(self, rows: CheckedRows) -> ComputedRows:
        """Compute the features of the checked rows of a request.

        Raises:
            BadRequest: the request is wrong; a retry cannot help.
            FeatureError: the query drops or repeats rows; a retry cannot help.
        """
        return self._add_key(rows, self._query.compute(rows.values, rows.count))

    def can_merge(self, rows: CheckedRows) -> bool:
        """Return whether a request gets the same features if it is computed together with other requests.

        For a request of several rows, this is so only if no feature reads other rows.
        """
        query = self._compiled_query
        return query.are_rows_independent or (rows.count == 1 and query.separate_sql is not None)

    def compute_together(self, requests: Sequence[CheckedRows]) -> ComputedRows:
        """Compute the features of several requests, in the order of the requests.

        Args:
            requests: requests with the same `CheckedRows.columns`. `can_merge` must be true for each.

        Raises:
            BadRequest: the features of one of the requests cannot be computed; a retry cannot help.
            FeatureError: the query drops or repeats rows; a retry cannot help.
        """
        values = {
            name: list(chain.from_iterable(rows.values[name] for rows in requests)) for name in requests[0].values
        }
        partition_starts = list(chain.from_iterable(rows.partition_starts for rows in requests))
        rows = CheckedRows(values, sum(rows.count for rows in requests), partition_starts)
        return self._add_key(rows, self._query.compute_independently(values, rows.count))

    def look_up(self, rows: ComputedRows) -> LookupResult | None:
        """Look up the features that are not computed from the rows; return None if all are computed.

        Several threads may call this at a time.
        """
        return self.lookups.look_up(rows.table, rows.partition_starts) if self.lookups else None

    def join(self, rows: ComputedRows, lookup_result: LookupResult | None, names: Collection[str]) -> pa.Table:
        """Return the features of these names, computed or looked up, in the order of `names`."""
        kinds, looked_up_columns = self.compiled.features, lookup_result.columns if lookup_result else {}
        return pa.table(
            {
                name: build_array(kinds[name], looked_up_columns[name])
                if name in looked_up_columns
                else rows.table[name]
                for name in names
            }
        )

    def list_columns(
        self, rows: ComputedRows, lookup_result: LookupResult | None, names: Collection[str]
    ) -> dict[str, Sequence[Any]]:
        """Return the features of these names as `join` does, as lists of Python values by name.

        For a few rows, it is faster than `join`.
        """
        columns = lookup_result.columns if lookup_result else {}
        return {name: columns[name] if name in columns else rows.table[name].to_pylist() for name in names}

    def warm_up(self, names: Collection[str]) -> pa.Table:
        """Compute and look up the features of a row of missing values, so that the first request takes no longer."""
        rows = ComputedRows(self._query.compute({name: [None] for name in self.columns}, 1))
        return self.join(rows, self.lookups.warm_up(rows.table) if self.lookups else None, names)

    def is_raw(self, table: Table) -> bool:
        """Return whether a request has raw rows, and not rows of features.

        The content type says it or, if it does not, the names of the columns. Both kinds of rows may have the key.

        Raises:
            BadRequest: some columns are only features and others only raw columns, or the names fit both and the values
                would differ.
        """
        if table.kind:
            return table.kind == "raw"
        compiled_features = self.compiled
        names, features = set[str]().union(*table.rows), set(compiled_features.features)
        raw_columns = set(compiled_features.row_schema.names) - set(compiled_features.known_later)
        feature_names = names & (features - raw_columns)
        raw_names = names & (raw_columns - features - {*compiled_features.key})
        if feature_names and raw_names:
            raise BadRequest(
                f"the rows have columns of features ({_list_names(feature_names)}) and of raw rows "
                f"({_list_names(raw_names)}): send every feature of the model, or raw rows"
            )
        if feature_names or raw_names or not features <= names:
            # Rows that lack a feature, and have no column that can only be a feature, are raw rows.
            return bool(raw_names) or not feature_names
        if changed_features := compiled_features.changed_features:
            raise BadRequest(
                f"the columns are those of features and of raw rows, whose values differ "
                f"({_list_names(changed_features)}): add rows=raw or rows=features to the content type, as in "
                "application/json; rows=raw"
            )
        return False

    def _add_key(self, rows: CheckedRows, features: pa.Table) -> ComputedRows:
        key = {name: rows.values[name] for name in self.compiled.key if name in rows.values}
        return ComputedRows(features, rows.partition_starts, key)

    def _list_partition_starts(self, values: Mapping[str, Sequence[Any]]) -> list[dt.datetime]:
        """Return the beginning of each row's partition; empty if one is not known and no lookup needs it.

        Raises:
            BadRequest: lookups need the partition, and a row lacks its day or hour, or the hour is not 0 to 23.
        """
        starts = []
        for number, day_and_hour in enumerate(zip(*(values[name] for name in self._partition_columns), strict=True), 1):
            day, hour = day_and_hour if len(day_and_hour) > 1 else (*day_and_hour, 0)
            if day is None or hour is None or not 0 <= hour <= 23:
                if not self._needs_partition:
                    return []
                names = " or ".join(self._partition_columns)
                raise BadRequest(f"row {number}: {names} is missing or not valid, so the partition is not known")
            starts.append(dt.datetime.combine(day, dt.time(hour), dt.UTC))
        return starts


def open_row_features(
    compiled_features: CompiledFeatures, connection: duckdb.DuckDBPyConnection, *, has_keys: bool = False
) -> RowFeatures:
    """Return a `RowFeatures` with all lookups, as in an endpoint. The first lookup connects to the online store."""
    lookups = None
    if compiled_features.lookups:
        store = OnlineRecords(LOOKUP_TIMEOUT_S, attempts=1, connections=1)
        lookups = LookupReader(compiled_features.lookups, compiled_features.features, store)
    return RowFeatures(compiled_features, connection, lookups, has_keys=has_keys)


def _list_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:5])
