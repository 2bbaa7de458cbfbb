"""Score one published partition with the champion, and store the predictions.

A prediction has the key of its row and the model version, so the predictions of earlier champions stay.
Idempotent: the same rows and version commit nothing. If there is no champion yet, the result says so; this is not an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.partitions import PartitionKey
from pipelines.system.log import log

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from pipelines.lake import Commit, Lake


class ScoreSpec(Spec):
    """One published partition to score."""

    prerequisites: ClassVar[Mapping[str, str]] = {"request": "response"}

    dataset: str
    """Dataset whose published table holds the partition."""
    model: str
    """Registered model."""
    partition: PartitionKey
    """Partition to score: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM), depending on the
    dataset."""
    version: str = ""
    """Version to score with. Empty: the champion; for a day before the champion's as_of, the champion of that day."""
    max_rows: int = Field(default=0, ge=0)
    """A partition with more rows is left to Batch Transform (step `batch`); 0: no limit."""
    response: str = ""
    """Folder with the output of a Batch Transform job; empty: score in this process."""
    request: str = ""
    """Name of the rows that the job scored: `request` in the result of the step `batch`."""


class ScoreResult(Result):
    """A scored partition."""

    table: str
    """Table of the predictions."""
    partition: PartitionKey
    """Partition that was scored."""
    model_name: str
    """Registered model."""
    version: str = ""
    """Version that scored; empty if there was none."""
    scored: int = 0
    """Rows with a prediction of the version: all rows of the partition, or 0."""
    changed: bool = False
    """False if the same predictions were stored before; their scored_at does not change."""
    rows: Path | None = None
    """Parquet file of the scored rows: key, features, label (null if it is not known yet), score."""
    large: bool = False
    """True if nothing was scored because the partition has more than `max_rows` rows."""
    reason: str = ""
    """Why no version can score the partition, in one line; otherwise empty."""


def run(spec: ScoreSpec) -> ScoreResult:
    """Score the rows that are published now, and replace the partition's predictions of the same version.

    Raises:
        DataError: the partition is not published, the version does not exist, its files are not those that the gate
            judged or cannot be loaded, or it needs features that the rows do not have. Earlier predictions stay as
            they are. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: the catalog stayed locked, or the response belongs to other rows than those that are published.
            A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.registry.versions import Registry
    from pipelines.scoring import scores
    from pipelines.scoring.predictions import repeat_until_current, require_published

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    require_published(lake, dataset, spec.partition)
    result = ScoreResult(table=dataset.predictions, partition=spec.partition, model_name=spec.model)
    if spec.max_rows and lake.count_rows_of_partitions(dataset.table, [spec.partition])[spec.partition] > spec.max_rows:
        log.info("%s %s: more than %d rows: not scored in this process", dataset.name, spec.partition, spec.max_rows)
        return result.model_copy(update={"large": True})
    registry = Registry.open()
    version = scores.choose_version(registry, spec.model, spec.version, spec.partition)
    if version is None:
        reason = f"{spec.model} has no champion that was trained as of {spec.partition} or before."
        log.info("%s %s: not scored: %s", dataset.name, spec.partition, reason)
        return result.model_copy(update={"reason": reason})
    score_and_store = _make_score_function(spec, dataset, lake, version)
    commit, rows = repeat_until_current(lake, [dataset.table], spec.partition, score_and_store)
    change = "written" if commit.changed else "the same as before"
    log.info(
        "%s %s: %d rows scored by %s version %s, %s",
        *(dataset.name, spec.partition, commit.rows, version.name, version.version, change),
    )
    update = {"version": str(version.version), "scored": commit.rows, "changed": commit.changed, "rows": rows}
    return result.model_copy(update=update)


def _make_score_function(
    spec: ScoreSpec, dataset: Dataset, lake: Lake, version: ModelVersion
) -> Callable[[], tuple[Commit, Path]]:
    """Return a function that scores the partition as it is now and stores the scores. The model is loaded once."""
    from pipelines.registry.artifacts import open_package
    from pipelines.registry.scorer import load_scorer
    from pipelines.scoring import scores
    from pipelines.scoring.batch import Response, list_features, list_score_classes

    local_scorer, features, classes = None, list[str](), list[str]()
    if spec.response:
        with open_package(version) as package:
            features, classes = list_features(package), list_score_classes(package)
    else:
        local_scorer = load_scorer(version)

    def score_and_store() -> tuple[Commit, Path]:
        scorer = local_scorer or Response(Path(spec.response), spec.request, features, classes)
        with scores.score_partition(lake, dataset, spec.partition, scorer) as file:
            if isinstance(scorer, Response):
                scorer.check_rows()
            return scores.store_scores(lake, dataset, spec.partition, file, version)

    return score_and_store
