"""Load a registered version, and score raw rows of its dataset with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import duckdb
import ibis

from pipelines.container.inference import BadRequest, list_scores, parse_table
from pipelines.dataset import Dataset
from pipelines.errors import DataError, SpecError
from pipelines.features.dependencies import list_features_of_other_rows
from pipelines.lake import Lake, connect
from pipelines.registry.artifacts import open_package
from pipelines.registry.scorer import Scorer, load_scorer
from pipelines.registry.versions import CHAMPION, Registry
from pipelines.scoring.batch import list_features
from pipelines.scoring.scores import score_features
from pipelines.serving.feature_query import FeatureQuery
from pipelines.serving.raw_rows import RawRows


@dataclass(frozen=True)
class ServedModel:
    """A loaded version, and what computes its features. Only one thread may use it."""

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
    """Features that depend on other rows: the server knows no other rows than those of the request."""

    def score(self, body: bytes, content_type: str) -> list[Any]:
        """Return the score of each row of a request, as JSON values.

        Raises:
            BadRequest: the request is wrong; a retry cannot help.
            DataError: the model cannot score these rows; a retry cannot help.
        """
        table = parse_table(body, content_type)
        try:
            features = self.query.compute(self.rows.convert(table), len(table.rows))
        except duckdb.DataError as error:  # for example, a difference of years that is no whole number of 32 bits
            raise BadRequest(f"the features cannot be computed from these rows: {error}") from None
        return list_scores(score_features(self.dataset, features, self.scorer))


@contextmanager
def open_model(name: str, selector: str, dataset: Dataset) -> Iterator[ServedModel]:
    """Load a version from the registry; remove its files when the block ends.

    Args:
        name: registered model.
        selector: number or alias of a version; empty: the champion.
        dataset: dataset of the rows. Its published table gives their columns.

    Raises:
        SpecError: the dataset has no label. A retry cannot help.
        DataError: there is no such version, its files are not those that were judged, it needs other features than
            those of the dataset, or no row of the dataset is published. A retry cannot help.
        ServiceError: MLflow or the lake's catalog does not answer. A retry can help.
    """
    if not dataset.label:
        raise SpecError(f"the dataset {dataset.name} has no label: there is nothing to predict.")
    version = Registry.open().find_version(name, selector or CHAMPION)
    row_schema = Lake.open().read_schema(dataset.published)
    with open_package(version) as package, connect() as connection:
        if missing := sorted(set(list_features(package)) - set(dataset.features)):
            message = f"{name} version {version.version} needs features that {dataset.name} does not have"
            raise DataError(f"{message}: {', '.join(missing)}.", "Serve it with the code that trained it.")
        connection.execute("SET threads = 1")  # for few rows, more threads would only wait for each other
        try:
            query = FeatureQuery(dataset, row_schema, connection)
        except (AttributeError, ibis.common.exceptions.IbisError) as error:  # ibis raises either for a missing column
            raise DataError(f"the features of {dataset.name} cannot be built from its rows: {error}.") from None
        model = ServedModel(
            name,
            str(version.version),
            dataset,
            RawRows(dataset, row_schema, query.columns),
            query,
            load_scorer(version, package),
            list_features_of_other_rows(dataset, row_schema),
        )
        _warm_up(model)
        yield model


def _warm_up(model: ServedModel) -> None:
    """Score a row of missing values: what the libraries load at their first call does not slow down the first request.

    A model that cannot score such a row is not refused.
    """
    with suppress(Exception):
        features = model.query.compute({name: [None] for name in model.query.columns}, 1)
        score_features(model.dataset, features, model.scorer)
