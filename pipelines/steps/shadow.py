"""Judge a version that an endpoint ran as a shadow variant: latency, errors, agreement, drift of scores, labels.

The step reads what the endpoint captured, and CloudWatch's metrics, and writes a report. An outcome other than
`passed` is a result, not an error. Idempotent.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, Field

from pipelines.contract import Result
from pipelines.dataset import load_dataset
from pipelines.evaluation.gates import Check, Outcome
from pipelines.settings import settings
from pipelines.shadow_test.limits import ShadowLimits
from pipelines.steps.collect import NAME_PATTERN
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.dataset import Dataset
    from pipelines.shadow_test.judge import Evidence, Judgement
    from pipelines.shadow_test.pairs import Period, ShadowScores
    from pipelines.shadow_test.variant_metrics import VariantMetrics


class ShadowSpec(ShadowLimits):
    """A shadow that has ended, and its limits."""

    dataset: str
    """Dataset of the model. The key and the labels come from its published table."""
    model: str
    """Registered model."""
    version: str
    """Number of the version that ran as the shadow variant."""
    champion: str
    """Number of the version that the endpoint served."""
    endpoint: str = Field(pattern=NAME_PATTERN)
    """Name of the endpoint."""
    variant: str = Field(pattern=NAME_PATTERN)
    """Name of the shadow variant: SageMaker's VariantName."""
    production_variant: str = Field(default="AllTraffic", pattern=NAME_PATTERN)
    """Name of the production variant."""
    captured: str
    """DestinationS3Uri of the endpoint's DataCaptureConfig, or a folder with a copy of its content."""
    since: AwareDatetime
    """Start of the shadow, with an offset from UTC."""
    until: AwareDatetime
    """End of the shadow, with an offset from UTC."""
    quiet_s: float = Field(default=5.0, ge=0, le=600)
    """Seconds without a new captured request after which the capture counts as complete. drydock writes every 2 s."""


class ShadowResult(Result):
    """The judgement of a shadow."""

    model_name: str
    """Registered model."""
    version: str
    """Version that ran as the shadow variant."""
    champion: str
    """Version that the endpoint served."""
    endpoint: str
    """Name of the endpoint."""
    outcome: Outcome
    """passed, failed, or undecided: too few requests, or intervals that are too wide."""
    reason: str
    """The failed and the undecided checks, in words; if there are none, how many checks passed."""
    checks: list[Check]
    """Every check with value, interval, bound and reason."""
    requests: int
    """Requests that both versions answered with scores."""
    rows: int
    """Rows of these requests."""
    labelled_rows: int
    """Rows whose labels are published."""
    page: str
    """Address of the report."""


def run(spec: ShadowSpec) -> ShadowResult:
    """Judge the shadow, and write its report to LEEWAY_HOME/docs.

    Raises:
        SpecError: the dataset has no label, or a comparison does not fit the task. A retry cannot help.
        DataError: `captured` is not an address of captured requests, or rows cannot be compared. A retry cannot help.
        ServiceError: S3 or CloudWatch does not answer. A retry can help.
    """
    from pipelines.evaluation.gates import combine_outcomes, summarize_checks
    from pipelines.lake import Lake
    from pipelines.shadow_test.judge import judge

    dataset = load_dataset(spec.dataset)
    spec = _find_threshold(spec, dataset)
    evidence = _collect_evidence(spec, dataset)
    judgement = judge(Lake.open(), dataset, evidence, spec)
    outcome, reason = combine_outcomes(judgement.checks), summarize_checks(judgement.checks)
    result = ShadowResult(
        model_name=spec.model,
        version=spec.version,
        champion=spec.champion,
        endpoint=spec.endpoint,
        outcome=outcome,
        reason=reason,
        checks=judgement.checks,
        requests=evidence.pairs.requests,
        rows=len(evidence.pairs.champion),
        labelled_rows=judgement.labelled_rows,
        page=settings().build_shadow_url(spec.model, spec.version),
    )
    _write_report(spec, evidence, judgement, result)
    log.info("shadow of %s version %s: %s: %s. Report: %s", spec.model, spec.version, outcome, reason, result.page)
    return result


def _find_threshold(spec: ShadowSpec, dataset: Dataset) -> ShadowSpec:
    """Return the spec; if the task is binary and the spec has no threshold, with that of the gate's policy."""
    from pipelines import params

    if spec.threshold is not None or dataset.task != "binary":
        return spec
    policy = params.load_section(settings().project, "gate", spec.model).get("policy", {})
    return spec.model_copy(update={"threshold": policy.get("threshold")})


def _collect_evidence(spec: ShadowSpec, dataset: Dataset) -> Evidence:
    import datetime as dt

    from pipelines.serving.captured_requests import Capture
    from pipelines.shadow_test.judge import Evidence
    from pipelines.shadow_test.pairs import Period, pair_requests
    from pipelines.shadow_test.variant_metrics import read_variant_metrics

    period = Period(spec.since.astimezone(dt.UTC), spec.until.astimezone(dt.UTC))
    shadow_scores = _read_all_shadow_scores(spec, period, dataset)
    pairs = pair_requests(
        Capture(spec.captured, spec.endpoint, spec.production_variant), period, dataset.task, shadow_scores
    )
    champion_metrics, shadow_metrics = (
        read_variant_metrics(spec.endpoint, variant, period) for variant in (spec.production_variant, spec.variant)
    )
    log.info(
        "%d requests were answered by both versions; the shadow variant captured %d",
        pairs.requests,
        shadow_scores.lines,
    )
    return Evidence(pairs, champion_metrics, shadow_metrics, period)


def _read_all_shadow_scores(spec: ShadowSpec, period: Period, dataset: Dataset) -> ShadowScores:
    """Read what the shadow variant captured; repeat until nothing new was written for `quiet_s` seconds."""
    from pipelines.serving.captured_requests import Capture
    from pipelines.shadow_test.pairs import read_shadow_scores

    capture, line_count = Capture(spec.captured, spec.endpoint, spec.variant), -1  # -1: nothing was read yet
    while True:
        shadow_scores = read_shadow_scores(capture, period, dataset.task)
        if shadow_scores.lines == line_count:
            return shadow_scores
        line_count = shadow_scores.lines
        time.sleep(spec.quiet_s)


def _describe_traffic(metrics: VariantMetrics) -> str:
    return f"{metrics.invocations:,} requests, {metrics.errors:,} errors, in whole minutes of CloudWatch"


def _write_report(spec: ShadowSpec, evidence: Evidence, judgement: Judgement, result: ShadowResult) -> None:
    from pipelines.pages.reports import Report, publish_report
    from pipelines.shadow_test.report import PAGE, write_report

    facts = {
        "endpoint": spec.endpoint,
        "time": f"{evidence.period.since:%Y-%m-%d %H:%M:%S} to {evidence.period.until:%Y-%m-%d %H:%M:%S} UTC",
        "compared": f"{result.requests:,} requests, {result.rows:,} rows; {result.labelled_rows:,} have labels",
        f"version {spec.champion} (serves)": _describe_traffic(evidence.champion),
        f"version {spec.version} (shadow)": _describe_traffic(evidence.challenger),
    }
    report = Report(
        *("shadow", spec.model, spec.version, PAGE, result.outcome, result.reason),
        f"beside version {spec.champion}",
    )
    write_report(
        report.folder,
        judgement.scores,
        (spec.champion, spec.version),
        judgement.checks,
        title=f"{spec.model}: version {spec.version} in the shadow of version {spec.champion}",
        outcome=result.outcome,
        reason=result.reason,
        facts=facts,
    )
    publish_report(report)
