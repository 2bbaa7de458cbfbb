"""What a candidate must show: the section `gate.policy` of params.yaml."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Metric = Literal["auc", "pr_auc", "log_loss", "brier", "ece", "accuracy", "precision", "recall", "f1"]
"""Those of `pipelines.evaluation.statistics.weighted.METRICS`, which is not loaded for a policy."""
Share = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    """A part of a policy. What it does not know is refused: a misspelt bound would guard nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Bound(Part):
    """Bounds of one metric; its whole interval has to keep them."""

    at_least: Finite | None = None
    """Least value."""
    at_most: Finite | None = None
    """Largest value."""

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("neither at_least nor at_most is given")
        return self


class Comparison(Part):
    """Candidate against champion on the same rows, paired."""

    metric: Metric
    """A metric; auc and the like are better where they are greater, losses where they are less."""
    margin: Amount = 0.0
    """Loss that is borne: above 0 it may not be worse by more (non-inferiority), at 0 it has to be better."""
    matters: Amount = 0.0
    """Gain over the bound that is worth having: where the interval has none left, more rows would not help."""
    test: Literal["auto", "delong", "bootstrap"] = "auto"
    """DeLong's for auc, the paired bootstrap for all others; auto chooses."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.test == "delong" and self.metric != "auc":
            raise ValueError(f"DeLong's test is of auc, not of {self.metric}")
        return self


class Slices(Part):
    """Parts of the holdout: none may fall far behind the champion's."""

    columns: list[str]
    """Columns of the features: each of their values is a slice."""
    max_drop: Share = 0.05
    """Largest loss of AUC against the champion, with confidence, all slices together (Holm)."""
    min_rows: Annotated[int, Field(ge=1)] = 500
    """Slices of fewer rows are told, not judged."""


class Stability(Part):
    """Weeks of the holdout: none may fall far below the whole."""

    max_drop: Share = 0.10
    """Largest loss of AUC of a week against the whole holdout's, with confidence, all weeks together (Holm)."""
    min_rows: Annotated[int, Field(ge=1)] = 500
    """Weeks of fewer rows are told, not judged."""


class Serving(Part):
    """The packaged model as it would serve."""

    max_skew: Amount = 1e-6
    """Largest difference between its scores and those of the training process, on the same rows."""
    max_mb: Amount | None = None
    """Largest size, MB."""
    max_single_ms: Amount | None = None
    """Largest time for one row, p99, milliseconds."""
    max_batch_ms: Amount | None = None
    """Largest time for `batch_rows` rows, p99, milliseconds."""
    batch_rows: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Rows of a batch."""


class Policy(Part):
    """What a candidate must show."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Chance of a wrong pass that each check may have: bounds are held against one-sided limits at this level."""
    power: Annotated[float, Field(gt=0.5, lt=1)] = 0.8
    """Chance to find what matters, for which the rows needed are told."""
    draws: Annotated[int, Field(ge=100, le=100_000)] = 2_000
    """Of the bootstrap."""
    draw_by: str = ""
    """Column whose values the bootstrap draws as wholes (date: the flights of a day are late together); then auc is
    bootstrapped too. Empty: rows are taken as independent of one another, and auc is DeLong's."""
    seed: int = 13
    """Of the bootstrap."""
    min_rows: Annotated[int, Field(ge=0)] = 5_000
    """Fewer rows of holdout than this decide nothing."""
    bounds: Annotated[dict[Metric, Bound], Field(min_length=1)] = {
        "auc": Bound(at_least=0.60, at_most=0.80),
        "ece": Bound(at_most=0.10),
    }
    """Absolute bounds by metric, one or more. An AUC above its upper one is taken for a leak, not for a good model."""
    baseline: list[Metric] = ["log_loss"]
    """Metrics in which the candidate has to beat the trivial models: the training's rate, and its last week's."""
    champion: list[Comparison] = [Comparison(metric="auc", margin=0.005, matters=0.005)]
    """Comparisons with the champion, where there is one."""
    threshold: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Score from which a row counts as positive: candidate and champion are compared there by McNemar's test."""
    slices: Slices | None = None
    """Parts of the holdout; null: none."""
    stability: Stability | None = Stability()
    """Weeks of the holdout; null: none."""
    max_solo_auc: Share | None = 0.75
    """AUC of one feature by itself, above which it is taken for a leak; null: not looked at."""
    serving: Serving | None = Serving()
    """The packaged model, where it is registered; null: not looked at."""
    max_cost_usd: Amount | None = None
    """Largest cost of the training, where it is known."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.draw_by and any(one.test == "delong" for one in self.champion):
            raise ValueError(f"DeLong's test takes rows as independent, but draw_by is {self.draw_by}")
        return self
