"""Load a registered version, and score raw rows of its dataset with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from pipelines.container.inference import list_scores
from pipelines.container.serving.compiled_features import CompiledFeatures
from pipelines.container.serving.feature_query import connect
from pipelines.container.serving.lookups import LOOKUP_TIMEOUT_S, LookupReader, LookupResult
from pipelines.container.serving.online_records import OnlineRecords
from pipelines.container.serving.row_features import CheckedRows, ComputedRows, RowFeatures
from pipelines.container.serving.tables import BadRequest, parse_table
from pipelines.dataset import Dataset
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.online.store import is_store_configured, require_store_configuration
from pipelines.registry.artifacts import open_package, read_package_features
from pipelines.registry.scorer import load_table_scorer
from pipelines.registry.versions import CHAMPION, Registry
from pipelines.scoring.batch import list_features
from pipelines.scoring.scores import check_scores
from pipelines.serving.compilation import compile_features
from pipelines.serving.recording import Recorder
from pipelines.system.log import log

LOOKUP_THREADS = 8
"""Largest number of requests whose lookups are in progress at a time."""
TIME_CHARS = {"hour": len("2013-01-31T05"), "day": len("2013-01-31"), "month": len("2013-01")}
"""Maps each unit of partitions to the length of a partition's name: the first characters of the ISO time at which the
partition begins."""


@dataclass(frozen=True)
class ServedModel:
    """A loaded version, with the objects that compute its features.

    One thread may compute features while another one scores, and several threads may look up features.
    """

    name: str
    """Registered model."""
    version: str
    """Number of the version."""
    row_features: RowFeatures
    """Checks the rows of a request, and computes and looks up their features."""
    scorer: Callable[[pa.Table], Any]
    """Scores a table of features: a score for each row, or a frame with a column for each class or quantile."""
    recorder: Recorder | None = None
    """Records features and scores of requests; None if nothing is recorded."""
    can_score_together: bool = False
    """Whether the score of a row is known to have the same bits, whichever other rows are scored with it."""

    @property
    def lookups(self) -> LookupReader | None:
        """Looks up features; None if all are computed from the rows."""
        return self.row_features.lookups

    def check(self, body: bytes, content_type: str) -> CheckedRows:
        """Parse and check the rows of a request.

        Raises:
            BadRequest: the request is wrong; a retry cannot help.
        """
        table = parse_table(body, content_type)
        if table.kind == "features":
            raise BadRequest("the content type has rows=features: this server takes raw rows")
        return self.row_features.check(table)

    def look_up(self, rows: ComputedRows) -> LookupResult | None:
        """Look up the features that are not computed from the rows. Several threads may call this at a time."""
        return self.row_features.look_up(rows)

    def score(self, rows: ComputedRows, lookup_result: LookupResult | None = None) -> list[Any]:
        """Return the score of each row, as JSON values.

        Raises:
            DataError: a score is not a finite number; a retry cannot help.
        """
        features = self.row_features.join(rows, lookup_result, self.row_features.compiled.features)
        scores = self._score_features(features)
        if self.recorder and rows.partition_starts:
            self.recorder.record(
                {"model": self.name, "version": self.version}, self._list_recorded_rows(rows, features, scores)
            )
        return scores

    def warm_up(self) -> None:
        """Score a row of missing values, so that libraries load now what they load at their first call.

        A model that cannot score such a row is served nevertheless.
        """
        with suppress(Exception):
            self._score_features(self.row_features.warm_up(self.row_features.compiled.features))

    def _score_features(self, features: pa.Table) -> list[Any]:
        return list_scores(check_scores(self.scorer(features)))

    def _list_recorded_rows(
        self, rows: ComputedRows, features: pa.Table, scores: Sequence[Any]
    ) -> list[dict[str, Any]]:
        values, chars = features.to_pylist(), TIME_CHARS[self.row_features.compiled.partition]
        return [
            {
                "partition": begin.isoformat()[:chars],
                "key": {name: column[number] for name, column in rows.key.items()},
                "features": values[number],
                "score": score,
            }
            for number, (begin, score) in enumerate(zip(rows.partition_starts, scores, strict=True))
        ]


@contextmanager
def open_model(
    name: str,
    selector: str,
    load_dataset: Callable[[], Dataset],
    *,
    has_lookups: bool | None = None,
    record_to: Path | None = None,
) -> Iterator[ServedModel]:
    """Load a version from the registry; remove its files when the block ends.

    Features are computed as the version's package says. For a package without compiled features, they are compiled
    from the dataset's present code and the columns of its published table.

    Args:
        name: registered model.
        selector: number or alias of a version; empty: the champion.
        load_dataset: loads the dataset of the rows. Called only for a package without compiled features.
        has_lookups: whether lookups are used; None: if there are some and an online store is configured.
        record_to: folder in which features and scores of requests are recorded; None: they are not recorded.

    Raises:
        SpecError: the dataset has no label or a wrong lookup; or `has_lookups` is true without lookups or online store.
            A retry cannot help.
        DataError: there is no such version, its files are not those that were judged, or its features cannot be
            computed. A retry cannot help.
        ServiceError: MLflow or the lake's catalog does not answer. A retry can help.
    """
    version = Registry.open().find_version(name, selector or CHAMPION)
    title = f"{name} version {version.version}"
    with open_package(version) as package, closing(connect()) as connection:
        compiled_features = read_package_features(version, package) or _compile(load_dataset(), title, has_lookups)
        _require_features(compiled_features, title, list_features(package))
        lookups = _open_lookups(compiled_features, title, has_lookups=has_lookups)
        row_features = _open_row_features(compiled_features, connection, lookups, title, has_keys=bool(record_to))
        recorder, scorer = Recorder(record_to) if record_to else None, load_table_scorer(version, package)
        model = ServedModel(
            name, str(version.version), row_features, scorer, recorder, can_score_together=scorer.has_independent_rows
        )
        model.warm_up()
        yield model


def _compile(dataset: Dataset, title: str, has_lookups: bool | None) -> CompiledFeatures:
    """Compile the features of the dataset's present code."""
    if not dataset.label:
        raise SpecError(f"the dataset {dataset.name} has no label: there is nothing to predict.")
    if has_lookups is None:
        has_lookups = bool(dataset.lookups) and is_store_configured()
    compiled_features = compile_features(dataset, Lake.open().read_schema(dataset.table), has_lookups=has_lookups)
    log.info("%s was registered without compiled features: those of the present code are used", title)
    return compiled_features


def _require_features(compiled_features: CompiledFeatures, title: str, names: Iterable[str]) -> None:
    if missing_names := sorted(set(names) - set(compiled_features.features)):
        message = f"{title} needs features that its dataset does not have: {', '.join(missing_names)}."
        raise DataError(message, "Serve it with the code that trained it.")


def _open_lookups(compiled_features: CompiledFeatures, title: str, *, has_lookups: bool | None) -> LookupReader | None:
    if has_lookups is False or (has_lookups is None and not (compiled_features.lookups and is_store_configured())):
        return None
    if not compiled_features.lookups:
        raise SpecError(f"{title} was registered without lookups.", "Declare them: docs/how-to/serving.md.")
    require_store_configuration()
    store = OnlineRecords(LOOKUP_TIMEOUT_S, attempts=1, connections=LOOKUP_THREADS)
    return LookupReader(compiled_features.lookups, compiled_features.features, store)


def _open_row_features(
    compiled_features: CompiledFeatures,
    connection: duckdb.DuckDBPyConnection,
    lookups: LookupReader | None,
    title: str,
    *,
    has_keys: bool,
) -> RowFeatures:
    try:
        return RowFeatures(compiled_features, connection, lookups, has_keys=has_keys)
    except duckdb.Error as error:  # such as if another version of DuckDB compiled them
        raise DataError(f"{title}: DuckDB cannot run its compiled features: {error}.") from None
