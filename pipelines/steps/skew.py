"""Compare features and scores of requests to a model server with those that the lake gives for the same rows.

`serve --record` records the requests. Run the comparison when the partition is published. It changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import load_dataset
from pipelines.partitions import PartitionKey
from pipelines.system.log import log

SCORE = "score"
"""Name of the score in the result, beside the features."""


class SkewSpec(Spec):
    """Which requests to compare, and how many rows may differ."""

    dataset: str
    """Dataset of the rows."""
    model: str
    """Registered model that scored them."""
    partition: PartitionKey
    """Published partition whose rows are compared."""
    requests: Path
    """Folder that `serve --record` wrote."""
    max_share: float = Field(default=0.01, ge=0, le=1)
    """Largest share of rows in which a feature or the score may differ."""
    min_rows: int = Field(default=100, ge=1)
    """Fewer rows give the outcome `undecided`."""


class SkewResult(Result):
    """Compared requests."""

    partition: PartitionKey
    """Partition whose rows were compared."""
    model_name: str
    """Registered model."""
    versions: list[str]
    """Versions that scored the rows."""
    outcome: Literal["ok", "skew", "undecided"]
    """`skew`: a feature or the score differs in more rows than `max_share` allows."""
    rows: int
    """Rows of requests that were compared. A row that was requested twice counts twice."""
    unmatched: int
    """Rows of requests that the lake does not have, or whose key is incomplete."""
    differing: dict[str, float]
    """Feature, or `score`, to the share of rows in which it differs; those that never differ are left out."""
    reason: str = ""
    """Why the outcome is not `ok`, in one line."""


def run(spec: SkewSpec) -> SkewResult:
    """Compare the recorded rows of the partition, each with the scores of the version that scored it.

    Raises:
        DataError: the partition is not published, there are no recorded requests, or a version cannot be loaded. A
            retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.registry.scorer import load_scorer
    from pipelines.registry.versions import Registry
    from pipelines.scoring.predictions import require_published
    from pipelines.serving.skew import find_skew

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    require_published(lake, dataset, spec.partition)
    rows_by_version = _read_rows(spec)
    skews = []
    for number, rows in rows_by_version.items():
        version = Registry.open().find_version(spec.model, number)
        skews.append(find_skew(lake, dataset, spec.partition, rows, load_scorer(version)))
    result = _judge(spec, sorted(rows_by_version), skews)
    shares = ", ".join(f"{name} {share:.2%}" for name, share in result.differing.items()) or "none"
    log.info("%s: %d rows of requests, differing: %s: %s", spec.partition, result.rows, shares, result.outcome)
    return result


def _read_rows(spec: SkewSpec) -> dict[str, list[dict[str, Any]]]:
    """Read the recorded rows of the model and the partition, by version."""
    from pipelines.serving.recording import read_recorded_rows

    rows_by_version: dict[str, list[dict[str, Any]]] = {}
    for row in read_recorded_rows(spec.requests):
        if row["model"] == spec.model and row.get("partition") == spec.partition.isoformat():
            rows_by_version.setdefault(str(row["version"]), []).append(row)
    return rows_by_version


def _judge(spec: SkewSpec, versions: list[str], skews: list[Any]) -> SkewResult:
    from pipelines.serving.skew import SCORE as SCORE_COLUMN

    rows, unmatched = sum(skew.rows for skew in skews), sum(skew.unmatched for skew in skews)
    counts: dict[str, int] = {}
    for skew in skews:
        for name, count in skew.differing.items():
            counts[name] = counts.get(name, 0) + count
    differing = {SCORE if name == SCORE_COLUMN else name: count / rows for name, count in counts.items() if count}
    too_many = [f"{name} ({share:.2%})" for name, share in differing.items() if share > spec.max_share]
    outcome: Literal["ok", "skew", "undecided"] = "skew" if too_many else "ok"
    reason = f"more than {spec.max_share:.2%} of the rows differ in {', '.join(too_many)}" if too_many else ""
    if rows < spec.min_rows:
        outcome, reason = "undecided", f"{rows} rows of requests, and {spec.min_rows} are needed"
    return SkewResult(
        partition=spec.partition,
        model_name=spec.model,
        versions=versions,
        outcome=outcome,
        rows=rows,
        unmatched=unmatched,
        differing=differing,
        reason=reason,
    )
