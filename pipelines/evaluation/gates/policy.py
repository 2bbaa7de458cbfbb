"""Define the policy of the gate, the conditions that a candidate must meet: section `gate.policy` of params.yaml."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from pipelines.parameters import Parameters

MetricName = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,63}|(recall|auc|pinball|coverage)/.{1,200})$")]
"""Name of a metric of the task (`pipelines.evaluation.statistics.weighted`), or of the dataset's metrics.py."""
Share = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


# BaseModel is named because ruff would report mutable defaults otherwise (RUF012); pydantic copies them.
class Section(Parameters, BaseModel):
    """A section of a policy. Unknown fields are refused, because a misspelt bound would check nothing."""


class Bound(Section):
    """Bounds of one metric. The whole interval of the metric must be within them."""

    at_least: Finite | None = None
    """Smallest allowed value."""
    at_most: Finite | None = None
    """Largest allowed value."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("neither at_least nor at_most is given")
        return self


class Comparison(Section):
    """A paired comparison of candidate and champion on the same rows."""

    metric: MetricName
    """Metric to compare. Whether greater or smaller is better follows from the metric: greater for auc and r2,
    smaller for a loss."""
    margin: Amount = 0.0
    """How much worse than the champion the candidate may be. 0: it must be better. Above 0: it must not be worse by
    more than this (non-inferiority)."""
    relevant_gain: Amount = 0.0
    """Smallest relevant gain over the bound, which is `margin` below 0. If the whole interval is below the bound plus
    this gain, the check fails instead of being undecided."""
    test: Literal["auto", "delong", "bootstrap"] = "auto"
    """Test for independent rows. auto: DeLong's test for auc, the paired bootstrap for other metrics. With `group_by`,
    the test is always by groups, and delong is refused."""

    @model_validator(mode="after")
    def _check_test(self) -> Self:
        if self.test == "delong" and self.metric != "auc":
            raise ValueError(f"DeLong's test is for auc, not for {self.metric}")
        return self


class Slices(Section):
    """Slices of the holdout: none may fall far behind the champion."""

    columns: list[str]
    """Columns of the holdout, such as features. Each value of a column is a slice."""
    max_drop: Share = 0.05
    """Largest tolerated loss of AUC against the champion, or of accuracy for multiclass models; all slices are tested
    together (Holm). In a regression, the loss is the increase of the mean absolute error, as a share of the champion's
    on the whole holdout."""
    min_rows: Annotated[int, Field(ge=1)] = 500
    """Slices with fewer rows, or with fewer groups than `min_groups`, are reported, not judged."""


class Stability(Section):
    """Weeks of the holdout: none may fall far below the whole holdout."""

    max_drop: Share = 0.10
    """Largest tolerated loss of AUC of a week against the whole holdout, or of accuracy for multiclass models; all
    weeks are tested together (Holm). In a regression, the loss is the increase of the mean absolute error, as a share
    of that of the whole holdout."""
    min_rows: Annotated[int, Field(ge=1)] = 500
    """Weeks with fewer rows, or with fewer than 3 groups, are reported, not judged."""


class Serving(Section):
    """Bounds of the packaged model."""

    max_skew: Amount = 1e-6
    """Largest absolute difference between the package's scores and the training process's scores of the same rows."""
    max_mb: Amount | None = None
    """Largest size, MB."""
    max_single_ms: Amount | None = None
    """Largest time for one row, p99, milliseconds."""
    max_batch_ms: Amount | None = None
    """Largest time for `batch_rows` rows, p99, milliseconds."""
    batch_rows: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Rows of a batch."""


class Policy(Section):
    """The conditions that a candidate must meet."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Significance level. Each end of an interval is a one-sided confidence limit at this level, so the interval has
    confidence 1 - 2 * alpha, and a check of a bound passes wrongly with at most the probability alpha."""
    power: Annotated[float, Field(gt=0.5, lt=1)] = 0.8
    """Probability of detecting a relevant effect. The number of needed rows is computed for this probability."""
    draws: Annotated[int, Field(ge=100, le=100_000)] = 2_000
    """Number of draws of the bootstrap, which is used for independent rows."""
    group_by: str = ""
    """Column whose values are groups of related rows (date: flights of one day are late together). Consecutive groups
    may be related too. Every interval is then computed by groups. Empty: rows are treated as independent, and auc has
    DeLong's interval."""
    min_groups: Annotated[int, Field(ge=2)] = 10
    """Smallest number of groups for a check by groups. With fewer, the check is undecided, but a slice is only
    reported. A week needs 3 groups."""
    seed: int = 13
    """Seed of the bootstrap."""
    min_rows: Annotated[int, Field(ge=1)] = 5_000
    """Smallest number of holdout rows with which a verdict can pass. A binary model also needs 30 rows of each label. A
    multiclass model needs 30 rows of each class that a metric of the policy measures alone or in a mean over
    classes."""
    bounds: Annotated[dict[MetricName, Bound], Field(min_length=1)] = {
        "auc": Bound(at_least=0.60, at_most=0.80),
        "ece": Bound(at_most=0.10),
    }
    """Bounds by metric, one or more. An AUC above its upper bound is treated as a leak, not as a good model. Other
    tasks have other defaults of bounds, baseline, champion and stability: see `task_policy`."""
    baseline: list[MetricName] = ["log_loss"]
    """Metrics in which the candidate must be better than two constant predictions: the mean label of the training days,
    and the mean label of the last week of these days."""
    champion: list[Comparison] = [Comparison(metric="auc", margin=0.005, relevant_gain=0.005)]
    """Comparisons with the champion, if there is one."""
    threshold: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Smallest score with which a row is predicted positive. McNemar's test compares candidate and champion at this
    score. Only for binary models."""
    threshold_margin: Annotated[Share, Field(lt=1)] = 0.0
    """How much worse the candidate may be at the threshold, as a share of the rows. If 0, it must be right on at least
    as many rows as the champion. If above 0, it may be right on fewer rows, but not by more than this share
    (non-inferiority)."""
    slices: Slices | None = None
    """Slices of the holdout; null: no check."""
    stability: Stability | None = Stability()
    """Weeks of the holdout; null: no check."""
    max_solo_auc: Share | None = 0.75
    """Largest AUC of one feature alone. A feature above this bound is treated as a leak. For a multiclass model, the
    AUC is the largest of one class against all others. In a regression, this bounds the concordance: the share of pairs
    of rows that the feature puts in the right order. Null: no check."""
    serving: Serving | None = Serving()
    """Bounds of the packaged model, if the candidate is registered; null: no check."""
    max_cost_usd: Amount | None = None
    """Largest cost of the training, US dollars, if the cost is known. Null: the cost is only reported."""

    @model_validator(mode="after")
    def _check_independence(self) -> Self:
        if self.group_by and any(comparison.test == "delong" for comparison in self.champion):
            raise ValueError(f"DeLong's test takes rows as independent, but group_by is {self.group_by}")
        return self
