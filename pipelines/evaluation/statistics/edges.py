"""Widen intervals that are too narrow because few rows show no error, such as the AUC of four separated rows.

A share that was 1 in each of k independent trials may still be as low as alpha ** (1 / k) (Clopper & Pearson 1934,
Biometrika 26). The AUC is such a share: of the pairs of a 1 and a 0 in the right order. The rarer label's rows give as
many independent pairs, so their number is k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scipy.special import expit, logit
from scipy.stats import beta

from pipelines.evaluation.statistics.estimate import Estimate, compute_quantile

MIN_LABEL_ROWS = 30
"""Fewest rows of each label with which the normal approximation is used."""
SHARES = ("auc", "pr_auc", "brier", "accuracy", "precision", "recall", "f1")
"""Metrics between 0 and 1."""


def bound_share(share: float, trials: int, alpha: float) -> tuple[float, float]:
    """Compute the exact interval of a share of independent trials (Clopper & Pearson 1934).

    Args:
        share: observed share, 0 to 1; a half counts for a tie.
        trials: number of trials, 1 or more.
        alpha: error probability of each end.
    """
    hits = share * trials
    low = float(beta.ppf(alpha, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.isf(alpha, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def bound_difference(shares: Sequence[float], trials: int, alpha: float) -> tuple[float, float]:
    """Bound the only share, or the first less the second: each share is then bounded at alpha / 2 (Bonferroni)."""
    if len(shares) == 1:
        return bound_share(shares[0], trials, alpha)
    (low, high), (other_low, other_high) = (bound_share(share, trials, alpha / 2) for share in shares)
    return low - other_high, high - other_low


def widen_at_edge(estimate: Estimate, shares: Sequence[float], trials: int, alpha: float) -> Estimate:
    """Return the estimate with an exact interval, if nothing varies and each share is 0 or 1; else unchanged.

    Args:
        estimate: of the only share, or of the first less the second.
        shares: one or two shares.
        trials: number of independent trials: groups, or rows of the rarer label.
        alpha: error probability of each end.
    """
    if estimate.low < estimate.high or any(0 < share < 1 for share in shares):
        return estimate
    low, high = bound_difference(shares, trials, alpha)
    return replace(estimate, low=min(low, estimate.low), high=max(high, estimate.high))


def fit_to_range(estimate: Estimate, shares: Sequence[float], alpha: float) -> Estimate:
    """Return the estimate with an interval between 0 and 1, or between -1 and 1 for a difference of two shares.

    An interval of one share that would leave the range is too narrow at its other end: near an edge, errors are skewed.
    That end is then the one of the interval on the logit scale, if it is wider (Pepe 2003, section 5.2.4).
    """
    lowest, value = 1.0 - len(shares), estimate.value
    low, high = estimate.low, estimate.high
    if len(shares) == 1 and 0 < value < 1 and not 0 <= low <= high <= 1:
        half_width = compute_quantile(alpha, estimate.freedom) * estimate.se / (value * (1 - value))
        low, high = (
            min(low, float(expit(logit(value) - half_width))),
            max(high, float(expit(logit(value) + half_width))),
        )
    return replace(estimate, low=max(low, lowest), high=min(high, 1.0))
