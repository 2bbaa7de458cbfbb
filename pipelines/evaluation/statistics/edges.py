"""Widen intervals that are too narrow at the edges of the range of a metric, such as an AUC of 1 from four rows.

If the share observed in k independent trials is 1, the true share may still be as low as alpha ** (1 / k) (Clopper &
Pearson 1934, Biometrika 26). The AUC is such a share: it is the share of the pairs of a row labelled 1 and a row
labelled 0 whose scores are in the right order. There are as many independent pairs as rows of the rarer label, so k is
the number of these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scipy.special import expit, logit
from scipy.stats import beta

from pipelines.evaluation.statistics.estimate import Estimate, compute_quantile

MIN_LABEL_ROWS = 30
"""Fewest rows of each label with which the normal approximation is used."""


def bound_share(share: float, trials: int, alpha: float) -> tuple[float, float]:
    """Compute the exact interval of a share of independent trials (Clopper & Pearson 1934).

    Args:
        share: observed share, 0 to 1; a tie counts as one half.
        trials: number of trials, 1 or more.
        alpha: error probability of each end.
    """
    hits = share * trials
    low = float(beta.ppf(alpha, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.isf(alpha, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def bound_difference(shares: Sequence[float], trials: int, alpha: float) -> tuple[float, float]:
    """Compute the interval of one share, or of a difference: the first share minus the second.

    For a difference, each share is bounded at alpha / 2 (Bonferroni).
    """
    if len(shares) == 1:
        return bound_share(shares[0], trials, alpha)
    (low, high), (second_low, second_high) = (bound_share(share, trials, alpha / 2) for share in shares)
    return low - second_high, high - second_low


def widen_at_edge(estimate: Estimate, shares: Sequence[float], trials: int, alpha: float) -> Estimate:
    """Widen the interval to the exact one, if it is a single point and each share is 0 or 1; else change nothing.

    Args:
        estimate: estimate of the share, or of the first share minus the second.
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

    Near an edge of the range, errors are skewed. So if the interval of a single share leaves the range at one end, the
    other end is too close to the share. The interval is then widened to that on the logit scale (Pepe 2003, section
    5.2.4).
    """
    lowest_value, value = 1.0 - len(shares), estimate.value
    low, high = estimate.low, estimate.high
    if len(shares) == 1 and 0 < value < 1 and not 0 <= low <= high <= 1:
        half_width = compute_quantile(alpha, estimate.degrees_of_freedom) * estimate.se / (value * (1 - value))
        low, high = (
            min(low, float(expit(logit(value) - half_width))),
            max(high, float(expit(logit(value) + half_width))),
        )
    return replace(estimate, low=max(low, lowest_value), high=min(high, 1.0))
