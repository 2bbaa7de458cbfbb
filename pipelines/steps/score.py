"""Scores one published partition with the champion, and keeps the predictions.

A prediction for each row's key and version of the model: what one version said is not lost when another is champion.
Idempotent: the same rows and version commit nothing. No champion yet is a result, not an error.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import dataset
from pipelines.system.log import log


class ScoreSpec(Spec):
    """One published partition to score."""

    dataset: str = "flights"
    """Dataset whose published table holds the partition."""
    model_name: str
    """Registered model."""
    partition: dt.date
    """Day to score (YYYY-MM-DD)."""
    version: str = ""
    """Version to score with; the champion where it is empty (of a day before its as_of: the champion of then)."""
    max_rows: int = Field(default=0, ge=0)
    """Rows above which the partition is left to Batch Transform (step `batch`); 0: none is."""
    answers: str = ""
    """Folder of what a Batch Transform job said of the rows that `batch` wrote; empty: the model is asked here."""
    asked: str = ""
    """Name of these rows, as `batch` told it."""


class ScoreResult(Result):
    """A scored partition."""

    table: str
    """Table of the predictions."""
    partition: dt.date
    """Day that was scored."""
    model_name: str
    """Registered model."""
    version: str = ""
    """Version that scored; empty where none did."""
    scored: int = 0
    """Rows that have a prediction of the version: all of the partition, or none."""
    changed: bool = False
    """False where the same predictions were there already; their scored_at stays."""
    rows: Path | None = None
    """Parquet file of what was scored: key, features, label (null where it is not known yet), score."""
    large: bool = False
    """True where nothing was scored since the partition has more than `max_rows`."""
    reason: str = ""
    """Why nothing can be scored, in a line."""


def run(spec: ScoreSpec) -> ScoreResult:
    """The partition's predictions are those of the champion, of the rows that are published now.

    Raises:
        DataError: the partition is not published, the version is not there or cannot be loaded, or wants features that
            the rows do not have. What was predicted before stays. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: the catalog stayed busy, or the answers are of other rows than are published. A retry can help.
    """
    from pipelines.lake import Commit, Lake
    from pipelines.registry.versions import Registry
    from pipelines.scoring import scores
    from pipelines.scoring.batch import Answers, features_of
    from pipelines.scoring.predictions import current, demand_published

    chosen, lake = dataset(spec.dataset), Lake.open()
    demand_published(lake, chosen, spec.partition)
    result = ScoreResult(table=chosen.predictions, partition=spec.partition, model_name=spec.model_name)
    if spec.max_rows and lake.count_rows_of_days(chosen.published, [spec.partition])[spec.partition] > spec.max_rows:
        log.info("%s %s: more than %d rows: not scored in process", chosen.name, spec.partition, spec.max_rows)
        return result.model_copy(update={"large": True})
    registry = Registry.open()
    version = scores.serving(registry, spec.model_name, spec.version, spec.partition)
    if version is None:
        reason = f"{spec.model_name} has no champion that was trained as of {spec.partition} or before."
        log.info("%s %s: not scored: %s", chosen.name, spec.partition, reason)
        return result.model_copy(update={"reason": reason})
    model = None if spec.answers else registry.scorer(version)

    def work() -> tuple[Commit, Path]:
        asked = model or Answers(Path(spec.answers), spec.asked, features_of(version))
        with scores.scored(lake, chosen, spec.partition, asked) as file:
            if isinstance(asked, Answers):
                asked.demand()
            return scores.kept(lake, chosen, spec.partition, file, version)

    commit, rows = current(lake, [chosen.published], spec.partition, work)
    told = f"{commit.rows} rows scored by {version.name} version {version.version}"
    log.info("%s %s: %s, %s", chosen.name, spec.partition, told, "written" if commit.changed else "the same as before")
    made = {"version": str(version.version), "scored": commit.rows, "changed": commit.changed, "rows": rows}
    return result.model_copy(update=made)
