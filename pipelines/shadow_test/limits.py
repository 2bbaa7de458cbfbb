"""Define the limits by which the answers of a shadow variant are judged: section `shadow` of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipelines.contract import Spec
from pipelines.evaluation.gates.policy import Comparison

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class ShadowLimits(Spec):
    """Limits of a shadow: latency, errors, agreement with the champion, drift of scores, and paired metrics."""

    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Significance level of each check: the largest allowed probability that it passes, or finds drift, wrongly."""
    min_requests: Count = 500
    """Smallest number of requests that both versions answered. With fewer, the outcome is `undecided`."""
    max_error_increase: Share = 0.01
    """Largest increase of the share of failed requests over the champion's. The whole interval of the increase must be
    below this limit: even without any error, the default needs 368 requests."""
    latency_statistic: str = Field(default="Average", pattern=r"^(Average|p50|p99)$")
    """Statistic of the model's latency that is compared: Average, p50 or p99."""
    max_latency_ratio: float = Field(default=1.5, ge=1)
    """Largest latency, as a multiple of the champion's."""
    latency_margin_ms: float = Field(default=10.0, ge=0)
    """Milliseconds by which the latency may exceed the champion's, whatever `max_latency_ratio` is."""
    threshold: float | None = Field(default=None, gt=0, lt=1)
    """Smallest score with which a binary model predicts a row as positive; null: the threshold of the gate's policy.
    If neither is set, the mean difference of the scores is checked instead of the agreement."""
    min_agreement: Share = 0.9
    """Smallest share of rows on which both versions agree: on the side of the threshold, or on the class."""
    max_score_difference: Share = 0.1
    """Largest mean absolute difference of the scores of a binary model without a threshold."""
    max_relative_difference: float = Field(default=0.5, ge=0)
    """Largest mean absolute difference of the numbers of a regression, in standard deviations of the champion's."""
    max_psi: float = Field(default=0.25, gt=0)
    """Largest population stability index between the scores of both versions, or between their shares of classes."""
    comparisons: list[Comparison] | None = None
    """Paired comparisons on the rows whose labels are published, in the form of `champion` of the gate's policy; null:
    the gate's defaults for the task."""
    group_by: str = ""
    """Column of the key whose values are groups of related rows in these comparisons, such as date. Empty: rows are
    independent. If the groups are days, a shadow of few days decides nothing."""
    min_labelled_rows: Count = 500
    """Smallest number of rows with published labels. With fewer, there are no checks with labels."""
