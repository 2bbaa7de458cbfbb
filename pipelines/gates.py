"""Gates: what a candidate must show before it may be promoted. Each check is a row of the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Metrics = Mapping[str, float]


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
    value: float
    """What was measured."""
    bound: float
    """What was demanded."""
    passed: bool
    """Whether the value keeps the bound."""
    reason: str
    """The same in words."""


def judge(told: Metrics, champion: Metrics | None, policy: Policy) -> list[Check]:
    """Every check of the policy.

    Args:
        told: the candidate's holdout metrics; see `pipelines.evaluation.metrics`.
        champion: the champion's on the same rows; None where there is no champion.
        policy: the bounds.
    """
    checks = [
        _least("rows of holdout", told["rows"], policy.min_rows),
        _least("AUC", told["auc"], policy.min_auc),
        _most("AUC, leakage", told["auc"], policy.max_auc),
        _most("calibration error", told["ece"], policy.max_ece),
        _most("log loss against the base rate's", told["log_loss"], told["baseline_log_loss"]),
    ]
    if champion:
        checks.append(_least("AUC against the champion's", told["auc"], champion["auc"] - policy.max_auc_loss))
    return checks


def passed(checks: list[Check]) -> bool:
    """Whether all checks passed; no checks is no."""
    return bool(checks) and all(one.passed for one in checks)


def words(checks: list[Check]) -> str:
    """The failed checks in words; or that all passed."""
    failed = [one.reason for one in checks if not one.passed]
    return "; ".join(failed) if failed else f"all {len(checks)} checks passed"


def _least(name: str, value: float, bound: float) -> Check:
    return _check(name, value, bound, "at least", lambda: value >= bound)


def _most(name: str, value: float, bound: float) -> Check:
    return _check(name, value, bound, "at most", lambda: value <= bound)


def _check(name: str, value: float, bound: float, wanted: str, holds: Callable[[], bool]) -> Check:
    # A value that is not a number keeps no bound: both comparisons are false.
    good = holds()
    reason = f"{name} is {value:.6g}, {'and' if good else 'but'} {wanted} {bound:.6g} is demanded"
    return Check(check=name, value=value, bound=bound, passed=good, reason=reason)
