"""Compare the features and scores of a model's requests with those that the lake gives for the same rows.

`serve --record` or `collect` writes the requests. Run the comparison when the partition is published. The result is
stored in the table DATASET_skew. Idempotent: the step replaces the results of the same partition, model, version and
endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import SpecError
from pipelines.partitions import PartitionKey
from pipelines.system.log import log

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.lake import Lake
    from pipelines.serving.skew.comparison import Skew, Verdict

Outcome = Literal["ok", "skew", "undecided"]
OUTCOME_PRIORITY: tuple[Outcome, ...] = ("skew", "ok", "undecided")
"""All outcomes of a version. The outcome of the step is the first one in this order that any version has."""


class SkewSpec(Spec):
    """The requests to compare, and the share of rows that may differ."""

    prerequisites: ClassVar[Mapping[str, str]] = {"version": "rows"}
    replaced_fields: ClassVar[Mapping[str, str]] = {"rows": "requests"}

    dataset: str
    """Dataset of the rows."""
    model: str
    """Registered model that scored the rows."""
    partition: PartitionKey
    """Published partition whose rows are compared."""
    requests: Path | None = None
    """Folder that `serve --record` wrote."""
    rows: Path | None = None
    """File of the partition's rows that `collect` wrote, instead of `requests`."""
    version: str = ""
    """Number or alias of the version that scored `rows`; required with `rows`."""
    endpoint: str = Field(default="serve", min_length=1, max_length=127)
    """Name of the endpoint or server that answered. Results under other names stay in the table."""
    max_share: float = Field(default=0.01, ge=0, le=1)
    """Largest share of rows in which a feature or the score may differ."""
    min_rows: int = Field(default=100, ge=1)
    """Fewer rows of a version give the outcome `undecided`."""
    on_skew: Literal["report", "fail"] = "report"
    """What SkewOperator does on skew. report: the task succeeds, and its asset gets an event. fail: the task fails."""

    @model_validator(mode="after")
    def _require_one_source(self) -> Self:
        if self.requests is None and self.rows is None:
            raise ValueError("give requests, a folder of `serve --record`, or rows, a file of `collect`")
        return self


class SkewResult(Result):
    """Compared requests."""

    table: str
    """Table of the results."""
    partition: PartitionKey
    """Partition whose rows were compared."""
    model_name: str
    """Registered model."""
    versions: list[str]
    """Versions that scored the rows."""
    endpoint: str
    """Name of the endpoint or server that answered."""
    outcome: Outcome
    """`skew`: a feature or the score of a version differs in more rows than `max_share` allows. `undecided`: no version
    has enough rows."""
    rows: int
    """Rows of requests that were compared. A row that was recorded twice counts twice."""
    unmatched: int
    """Rows of requests that the lake does not have, or whose key is incomplete."""
    different_shares: dict[str, float]
    """Maps each feature, or `score`, to the share of rows in which it differs; if there are several versions, to the
    largest share. Features that never differ are left out."""
    reason: str = ""
    """Why the outcome is not `ok`, in one line."""
    fail: bool = False
    """Whether the task has to fail: the outcome is `skew`, and `on_skew` is `fail`."""
    changed: bool = False
    """Whether this call changed the table."""


class Comparison(NamedTuple):
    """The requests that one version scored, compared with the lake."""

    skew: Skew
    verdict: Verdict
    is_changed: bool
    """Whether the table changed."""


def run(spec: SkewSpec) -> SkewResult:
    """Compare the requests for rows of the partition with the lake's rows, which the same version scores again.

    Raises:
        SpecError: `rows` is given without `version`. A retry cannot help.
        DataError: the partition is not published, there are no recorded requests, the file of rows cannot be read, or a
            version cannot be loaded. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: other writers kept changing the table. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.scoring.predictions import require_published
    from pipelines.serving.skew.results_table import name_table

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    require_published(lake, dataset, spec.partition)
    rows_by_version = _read_requests(spec, lake, dataset)
    comparisons = {version: _compare(spec, lake, dataset, version, rows) for version, rows in rows_by_version.items()}
    result = summarize(spec, name_table(dataset), comparisons)
    shares = ", ".join(f"{name} {share:.2%}" for name, share in result.different_shares.items()) or "none"
    log.info("%s: %d rows of requests; different: %s; %s", spec.partition, result.rows, shares, result.outcome)
    return result


def _read_requests(spec: SkewSpec, lake: Lake, dataset: Dataset) -> dict[str, pa.Table]:
    """Read features and scores of the requests for rows of the partition, by the number of the version that scored."""
    from pipelines.registry.versions import Registry
    from pipelines.serving.recording import read_recorded_rows
    from pipelines.serving.skew.request_rows import build_recorded_table, read_collected_table

    if spec.rows:
        if not spec.version:
            raise SpecError("rows needs version.", "Give the version that scored them; `collect` returns it.")
        version_number = str(Registry.open().find_version(spec.model, spec.version).version)
        return {version_number: read_collected_table(lake, dataset, spec.rows)}
    assert spec.requests is not None
    rows_by_version: dict[str, list[dict[str, Any]]] = {}
    for row in read_recorded_rows(spec.requests):
        if row["model"] == spec.model and row.get("partition") == spec.partition.isoformat():
            rows_by_version.setdefault(str(row["version"]), []).append(row)
    return {version: build_recorded_table(lake, dataset, rows_by_version[version]) for version in rows_by_version}


def _compare(spec: SkewSpec, lake: Lake, dataset: Dataset, version: str, request_rows: pa.Table) -> Comparison:
    """Compare the requests that a version scored, and store the result."""
    from pipelines.registry.scorer import load_scorer
    from pipelines.registry.versions import Registry
    from pipelines.scoring.predictions import repeat_until_current
    from pipelines.serving.skew.comparison import find_skew, judge_skew
    from pipelines.serving.skew.results_table import Origin, write_skew

    scorer = load_scorer(Registry.open().find_version(spec.model, version))
    origin, change_flags = Origin(spec.model, version, spec.endpoint), list[bool]()

    def compare_once() -> tuple[Skew, Verdict]:
        skew = find_skew(lake, dataset, spec.partition, request_rows, scorer)
        verdict = judge_skew(skew, spec.max_share, spec.min_rows)
        change_flags.append(write_skew(lake, dataset, spec.partition, origin, skew, verdict, spec.max_share))
        return skew, verdict

    skew, verdict = repeat_until_current(lake, [dataset.table], spec.partition, compare_once)
    return Comparison(skew, verdict, any(change_flags))


def summarize(spec: SkewSpec, table: str, comparisons: Mapping[str, Comparison]) -> SkewResult:
    """Return the result of all versions, whose comparisons are given by the version's number."""
    outcome, reason = _decide(spec, comparisons)
    skews = [comparison.skew for comparison in comparisons.values()]
    return SkewResult(
        table=table,
        partition=spec.partition,
        model_name=spec.model,
        versions=sorted(comparisons),
        endpoint=spec.endpoint,
        outcome=outcome,
        rows=sum(skew.rows for skew in skews),
        unmatched=sum(skew.unmatched for skew in skews),
        different_shares=_find_largest_shares(skews),
        reason=reason,
        fail=outcome == "skew" and spec.on_skew == "fail",
        changed=any(comparison.is_changed for comparison in comparisons.values()),
    )


def _decide(spec: SkewSpec, comparisons: Mapping[str, Comparison]) -> tuple[Outcome, str]:
    """Return the outcome of all versions, and its reason in one line."""
    if not comparisons:
        return "undecided", f"0 rows of requests, and {spec.min_rows} are needed"
    verdicts = {version: comparison.verdict for version, comparison in comparisons.items()}
    outcomes = {verdict.outcome for verdict in verdicts.values()}
    outcome = next(candidate for candidate in OUTCOME_PRIORITY if candidate in outcomes)
    template = "version {}: {}" if len(verdicts) > 1 else "{1}"
    reasons = [
        template.format(version, verdict.reason) for version, verdict in verdicts.items() if verdict.outcome == outcome
    ]
    return outcome, "" if outcome == "ok" else "; ".join(reasons)


def _find_largest_shares(skews: Iterable[Skew]) -> dict[str, float]:
    """Return the largest share of each feature, or of `score`, by name. What never differs is left out."""
    from pipelines.serving.skew.results_table import get_row_name

    shares: dict[str, float] = {}
    for skew in skews:
        for name, share in skew.different_shares.items():
            shares[get_row_name(name)] = max(share, shares.get(get_row_name(name), 0.0))
    return {name: share for name, share in shares.items() if share}
