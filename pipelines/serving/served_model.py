"""Load a registered version, and score raw rows of its dataset with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa

from pipelines.container.inference import BadRequest, list_scores, parse_table
from pipelines.dataset import Dataset
from pipelines.errors import DataError, SpecError
from pipelines.features.dependencies import list_features_of_other_rows
from pipelines.lake import Lake, connect
from pipelines.lookups import Lookup
from pipelines.online.declarations import require_lookups
from pipelines.online.lookups import LookedUp, LookupReader
from pipelines.online.store import OnlineStore, is_configured
from pipelines.partitions import HOUR_COLUMN, Hour, Month, Partition
from pipelines.registry.artifacts import open_package
from pipelines.registry.scorer import Scorer, load_scorer
from pipelines.registry.versions import CHAMPION, Registry
from pipelines.scoring.batch import list_features
from pipelines.scoring.scores import score_features
from pipelines.serving.feature_query import FeatureQuery
from pipelines.serving.raw_rows import RawRows
from pipelines.serving.recording import Recorder

LOOKUP_THREADS = 8
"""Requests whose lookups are in progress at a time."""
LOOKUP_TIMEOUT_S = 0.5
"""Longest time to connect to the online store, and to wait for its answer, seconds."""


@dataclass(frozen=True)
class ComputedRows:
    """The features that are computed from the rows of a request, and the keys of those that are looked up."""

    table: pa.Table
    partitions: Sequence[Partition]
    """Partition of each row; empty if nothing is looked up or recorded."""
    keys: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Columns of the rows' key, as far as the request has them; empty if nothing is recorded."""


@dataclass(frozen=True)
class ServedModel:
    """A loaded version, and what computes its features. Only one thread may use it, but for `look_up`."""

    name: str
    """Registered model."""
    version: str
    """Number of the version."""
    dataset: Dataset
    """Dataset of the rows."""
    rows: RawRows
    """Checks the rows of a request."""
    query: FeatureQuery
    """Computes their features."""
    scorer: Scorer
    """Scores the features."""
    features_of_other_rows: Sequence[str]
    """Features that depend on other rows, and are not looked up: the server knows only the rows of the request."""
    lookups: LookupReader | None = None
    """Looks up the features that one request does not have; None if all are computed from the rows."""
    recorder: Recorder | None = None
    """Records what requests saw; None if nothing is recorded."""

    def compute(self, body: bytes, content_type: str) -> ComputedRows:
        """Compute the features of the rows of a request.

        Raises:
            BadRequest: the request is wrong; a retry cannot help.
        """
        table = parse_table(body, content_type)
        values = self.rows.convert(table)
        try:
            features = self.query.compute(values, len(table.rows))
        except duckdb.DataError as error:  # for example, a difference of years that is no whole number of 32 bits
            raise BadRequest(f"the features cannot be computed from these rows: {error}") from None
        if not (self.lookups or self.recorder):
            return ComputedRows(features, [])
        keys = {name: values[name] for name in self.dataset.key if name in values}
        return ComputedRows(features, self._find_partitions(values), keys)

    def look_up(self, rows: ComputedRows) -> LookedUp | None:
        """Look up the other features. Several threads may call this at a time."""
        return self.lookups.look_up(rows.table, rows.partitions) if self.lookups else None

    def score(self, rows: ComputedRows, looked_up: LookedUp | None = None) -> list[Any]:
        """Return the score of each row, as JSON values.

        Raises:
            DataError: the model cannot score these rows; a retry cannot help.
        """
        other_columns = looked_up.columns if looked_up else {}
        columns = {
            name: other_columns[name] if name in other_columns else rows.table[name] for name in self.dataset.features
        }
        features = pa.table(columns)
        scores = list_scores(score_features(self.dataset, features, self.scorer))
        if self.recorder and rows.partitions:
            self.recorder.record({"model": self.name, "version": self.version}, _list_recorded(rows, features, scores))
        return scores

    def _find_partitions(self, values: Mapping[str, Sequence[Any]]) -> list[Partition]:
        """Return the partition of each row; empty if the rows do not have it, which lookups require."""
        columns = ("date", HOUR_COLUMN) if self.dataset.partition == "hour" else ("date",)
        if not set(columns) <= set(values):
            return []
        days = values["date"]
        if self.dataset.partition == "hour":
            return [Hour(day, hour) for day, hour in zip(days, values[HOUR_COLUMN], strict=True)]
        return [Month(day) for day in days] if self.dataset.partition == "month" else list(days)


def _list_recorded(rows: ComputedRows, features: pa.Table, scores: Sequence[Any]) -> list[dict[str, Any]]:
    values = features.to_pylist()
    return [
        {
            "partition": partition.isoformat(),
            "key": {name: column[number] for name, column in rows.keys.items()},
            "features": values[number],
            "score": score,
        }
        for number, (partition, score) in enumerate(zip(rows.partitions, scores, strict=True))
    ]


@contextmanager
def open_model(
    name: str, selector: str, dataset: Dataset, *, has_lookups: bool | None = None, record_to: Path | None = None
) -> Iterator[ServedModel]:
    """Load a version from the registry; remove its files when the block ends.

    Args:
        name: registered model.
        selector: number or alias of a version; empty: the champion.
        dataset: dataset of the rows. Its published table gives their columns.
        has_lookups: whether the dataset's lookups are used; None: if it has some and an online store is configured.
        record_to: folder to which what requests saw is recorded; None: nothing is.

    Raises:
        SpecError: the dataset has no label or a wrong lookup, or lookups are required and impossible. No retry helps.
        DataError: there is no such version, its files are not those that were judged, it needs other features than
            those of the dataset, or no row of the dataset is published. A retry cannot help.
        ServiceError: MLflow or the lake's catalog does not answer. A retry can help.
    """
    if not dataset.label:
        raise SpecError(f"the dataset {dataset.name} has no label: there is nothing to predict.")
    lookups = _open_lookups(dataset, has_lookups=has_lookups)
    version = Registry.open().find_version(name, selector or CHAMPION)
    row_schema = Lake.open().read_schema(dataset.published)
    with open_package(version) as package, connect() as connection:
        _require_features(dataset, f"{name} version {version.version}", list_features(package))
        connection.execute("SET threads = 1")  # for few rows, more threads would only wait for each other
        query = _build_query(dataset, row_schema, connection, dataset.lookups if lookups else ())
        model = ServedModel(
            name,
            str(version.version),
            dataset,
            RawRows(dataset, row_schema, query.columns, _list_recorded_columns(dataset) if record_to else ()),
            query,
            load_scorer(version, package),
            _list_unknown_features(dataset, row_schema, lookups),
            lookups,
            Recorder(record_to) if record_to else None,
        )
        _warm_up(model)
        yield model


def _require_features(dataset: Dataset, version: str, names: Iterable[str]) -> None:
    if missing := sorted(set(names) - set(dataset.features)):
        message = f"{version} needs features that {dataset.name} does not have: {', '.join(missing)}."
        raise DataError(message, "Serve it with the code that trained it.")


def _list_recorded_columns(dataset: Dataset) -> list[str]:
    return [*dataset.key, "date", *([HOUR_COLUMN] if dataset.partition == "hour" else [])]


def _build_query(
    dataset: Dataset, row_schema: pa.Schema, connection: duckdb.DuckDBPyConnection, lookups: Sequence[Lookup]
) -> FeatureQuery:
    try:
        return FeatureQuery(dataset, row_schema, connection, lookups)
    except (AttributeError, ibis.common.exceptions.IbisError) as error:  # ibis raises either for a missing column
        raise DataError(f"the features of {dataset.name} cannot be built from its rows: {error}.") from None


def _open_lookups(dataset: Dataset, *, has_lookups: bool | None) -> LookupReader | None:
    if has_lookups is False or (has_lookups is None and not (dataset.lookups and is_configured())):
        return None
    require_lookups(dataset)
    return LookupReader(dataset, OnlineStore.open(LOOKUP_TIMEOUT_S, attempts=1, connections=LOOKUP_THREADS))


def _list_unknown_features(dataset: Dataset, row_schema: pa.Schema, lookups: LookupReader | None) -> list[str]:
    """List the features of other rows that are not looked up."""
    looked_up = {name for lookup in dataset.lookups for name in lookup.features} if lookups else set()
    return [name for name in list_features_of_other_rows(dataset, row_schema) if name not in looked_up]


def _warm_up(model: ServedModel) -> None:
    """Score a row of missing values: what the libraries load at their first call does not slow down the first request.

    A model that cannot score such a row is not refused.
    """
    with suppress(Exception):
        rows = ComputedRows(model.query.compute({name: [None] for name in model.query.columns}, 1), [])
        model.score(rows, model.lookups.warm_up(rows.table) if model.lookups else None)
