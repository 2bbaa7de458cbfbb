"""Gates: what a candidate must show before it may be promoted. Each check is a row of the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pipelines.errors import DataError

Metrics = Mapping[str, float]
WANTED = ("rows", "auc", "ece", "log_loss", "baseline_log_loss")
"""Metrics that the checks read."""
AT_LEAST, AT_MOST = "at least", "at most"


class Policy(BaseModel):
    """Bounds of the checks."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    min_rows: Annotated[int, Field(ge=0)] = 5_000
    """Fewer rows of holdout than this decide nothing."""
    min_auc: Annotated[float, Field(ge=0, le=1)] = 0.60
    """Least area under the ROC curve."""
    max_auc: Annotated[float, Field(ge=0, le=1)] = 0.80
    """An AUC above this is taken for a leak of the label, not for a good model."""
    max_ece: Annotated[float, Field(ge=0, le=1)] = 0.10
    """Largest expected calibration error."""
    max_auc_loss: Annotated[float, Field(ge=0, le=1)] = 0.005
    """A candidate may be worse than the champion, on the same rows, by at most this AUC."""


class Check(BaseModel):
    """One row of a verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    check: str
    """Its name."""
    value: float | None
    """What was measured; null where it is not a number."""
    bound: float | None
    """What was demanded; null where it is not a number."""
    passed: bool
    """Whether the value keeps the bound."""
    reason: str
    """The same in words."""


def judge(told: Metrics, champion: Metrics | None, policy: Policy, days_newer: int | None = None) -> list[Check]:
    """Every check of the policy.

    Args:
        told: the candidate's holdout metrics; see `pipelines.evaluation.metrics`.
        champion: the champion's on the same rows; None where there is no champion.
        policy: the bounds.
        days_newer: the candidate's as_of less the champion's, days; None where there is no champion.

    Raises:
        DataError: a metric is missing.
    """
    wrong = [name for name in WANTED if not isinstance(told.get(name, ""), (int, float, type(None)))]
    if wrong:
        raise DataError(f"the evaluation lacks {', '.join(wrong)}.", "Run the step `evaluate` again.")
    checks = [
        _check("rows of holdout", told["rows"], AT_LEAST, policy.min_rows),
        _check("AUC", told["auc"], AT_LEAST, policy.min_auc),
        _check("AUC, leakage", told["auc"], AT_MOST, policy.max_auc),
        _check("calibration error", told["ece"], AT_MOST, policy.max_ece),
        _check("log loss against the base rate's", told["log_loss"], AT_MOST, told["baseline_log_loss"]),
    ]
    if champion:
        checks.append(
            _check("AUC against the champion's", told["auc"], AT_LEAST, champion["auc"] - policy.max_auc_loss)
        )
    if days_newer is not None:
        checks.append(_check("days that the window is newer than the champion's", days_newer, AT_LEAST, 0))
    return checks


def passed(checks: list[Check]) -> bool:
    """Whether all checks passed; no checks is no."""
    return bool(checks) and all(one.passed for one in checks)


def words(checks: list[Check]) -> str:
    """The failed checks in words; or that all passed."""
    failed = [one.reason for one in checks if not one.passed]
    return "; ".join(failed) if failed else f"all {len(checks)} checks passed"


def _check(name: str, measured: float | None, wanted: str, demanded: float | None) -> Check:
    value, bound = _number(measured), _number(demanded)
    if value is None or bound is None:
        what = name if value is None else f"the bound of {name}"
        return Check(check=name, value=value, bound=bound, passed=False, reason=f"{what} is not a number")
    good = value >= bound if wanted == AT_LEAST else value <= bound
    reason = f"{name} is {value:.6g}, {'and' if good else 'but'} {wanted} {bound:.6g} is demanded"
    return Check(check=name, value=value, bound=bound, passed=good, reason=reason)


def _number(value: float | None) -> float | None:
    """None for NaN and the infinities: JSON does not have them, and they keep no bound."""
    return value if value is not None and math.isfinite(value) else None
