"""Compute the features of captured raw rows again, in the way that the endpoint computed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any

import duckdb
from mlflow.entities.model_registry import ModelVersion

from pipelines.container.serving.compiled_features import CompiledFeatures
from pipelines.container.serving.feature_query import FeatureError, connect
from pipelines.container.serving.lookups import LookupResult
from pipelines.container.serving.row_features import RowFeatures, open_row_features
from pipelines.container.serving.tables import BadRequest
from pipelines.container.serving.values import build_array
from pipelines.errors import DataError
from pipelines.registry.artifacts import open_package, read_package_features
from pipelines.serving.captured_requests import CapturedRequest


class CapturedRawRows:
    """Computes the features of captured raw rows of one version. Looked-up values are taken from the endpoint's answer.

    Args:
        load: returns the compiled features of the version; None if the version has none. Called once, for the first
            request.
        connection: a connection that `feature_query.connect` opened, and that only this object uses.
    """

    def __init__(self, load: Callable[[], CompiledFeatures | None], connection: duckdb.DuckDBPyConnection) -> None:
        self._load, self._connection = load, connection

    def list_values(self, request: CapturedRequest) -> Sequence[dict[str, Any] | None]:
        """Return key and features of each row of a request; None for each row if the features cannot be computed.

        Raises:
            DataError: the version's package cannot be read. A retry cannot help.
            ServiceError: MLflow does not answer. A retry can help.
        """
        no_values = [None] * len(request.rows.rows)
        row_features = self._row_features
        try:
            if row_features is None or not row_features.is_raw(request.rows):
                return no_values
            rows = row_features.compute(request.rows)
            lookup_result = LookupResult(_list_columns(row_features.compiled, request), {})
        except (BadRequest, FeatureError, ValueError, TypeError):  # clients may send anything, so this is no error here
            return no_values
        features = row_features.join(rows, lookup_result, row_features.compiled.features).to_pylist()
        keys = [dict(zip(rows.key, values, strict=True)) for values in zip(*rows.key.values(), strict=True)]
        if set(rows.key) != set(row_features.compiled.key):  # the request lacks columns of the key
            return no_values
        return [{**values, **key} for values, key in zip(features, keys, strict=True)]

    @cached_property
    def _row_features(self) -> RowFeatures | None:
        compiled_features = self._load()
        try:
            return open_row_features(compiled_features, self._connection, has_keys=True) if compiled_features else None
        except duckdb.Error as error:
            raise DataError(f"DuckDB cannot run the compiled features of the version: {error}.") from None


@contextmanager
def open_raw_rows(version: ModelVersion) -> Iterator[CapturedRawRows]:
    """Yield a `CapturedRawRows` for a registered version.

    The package of the version is read only if raw rows were captured.
    """

    def load() -> CompiledFeatures | None:
        with open_package(version) as package:
            return read_package_features(version, package)

    with closing(connect()) as connection:
        yield CapturedRawRows(load, connection)


def _list_columns(compiled_features: CompiledFeatures, request: CapturedRequest) -> dict[str, list[Any]]:
    """Return the looked-up features in the endpoint's answer: the values of each feature, by its name.

    Raises:
        ValueError: the answer does not have one value for each row.
        TypeError: a value in the answer does not have the type of its feature.
    """
    names = {name for lookup in compiled_features.lookups for name in lookup.features}
    columns = {
        name: build_array(compiled_features.features[name], request.looked_up.get(name, ())).to_pylist()
        for name in sorted(names)
    }
    if any(len(column) != len(request.rows.rows) for column in columns.values()):
        raise ValueError("the answer has no looked-up values")
    return columns
