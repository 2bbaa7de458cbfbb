"""Run every check of a shadow: traffic, scores, and the rows with labels."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.dataset import Dataset
from pipelines.evaluation.gates.checks import check_row_count, report_value
from pipelines.evaluation.gates.verdict import Check
from pipelines.lake import Lake
from pipelines.shadow_test import labelled_rows, score_checks, traffic_checks
from pipelines.shadow_test.limits import ShadowLimits
from pipelines.shadow_test.pairs import Pairs, Period, Scores
from pipelines.shadow_test.variant_metrics import VariantMetrics


@dataclass(frozen=True)
class Evidence:
    """The compared rows and the metrics of both versions in the time of a shadow."""

    pairs: Pairs
    champion: VariantMetrics
    challenger: VariantMetrics
    period: Period


@dataclass(frozen=True)
class Judgement:
    """The checks of a shadow."""

    checks: list[Check]
    scores: tuple[Scores, Scores] | None
    """Scores of the champion and of the challenger; None if no request was compared."""
    labelled_rows: int
    """Number of rows whose labels are published."""


def judge(lake: Lake, dataset: Dataset, evidence: Evidence, limits: ShadowLimits) -> Judgement:
    """Run every check.

    Raises:
        SpecError: a comparison names a metric that models of this task do not have. A retry cannot help.
        DataError: the classes of both versions cannot be compared, or the dataset's key lacks the column that
            `group_by` names. A retry cannot help.
    """
    pairs = evidence.pairs
    checks = [
        check_row_count("requests that both versions answered", pairs.requests, limits.min_requests),
        traffic_checks.check_errors(evidence.champion, evidence.challenger, limits),
        *traffic_checks.check_latency(pairs.get_times(), evidence.champion, evidence.challenger, limits),
    ]
    if not pairs.requests:
        return Judgement(checks, None, 0)
    scores = pairs.tabulate()
    checks += [
        score_checks.check_agreement(dataset.task, *scores, limits),
        score_checks.check_drift(*scores, limits),
    ]
    labels = labelled_rows.read_labels(lake, dataset, pairs, evidence.period) if dataset.label else None
    labelled_checks = labelled_rows.check_labelled_rows(dataset, scores, labels, limits) if labels else []
    count = len(labels.positions) if labels else 0
    if not labelled_checks:
        counts = f"{count} of {len(pairs.champion)} rows have published labels"
        reason = f"{counts}, which are too few or all equal: nothing is compared with labels"
        labelled_checks = [report_value("rows with labels", reason, float(count))]
    return Judgement([*checks, *labelled_checks], scores, count)
