"""Learn from past jobs how wrong predictions are, and correct new ones. Without past jobs, nothing is corrected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, stdev

from pipelines.errors import SpecError
from pipelines.planning.recommendation.workloads import Basis

PRIOR_JOBS = 2.0
"""With this number of jobs, the median of a group of jobs counts as much as what the groups before it gave together;
`learn_correction` describes the groups."""
MAX_OBSERVATIONS = 200
"""Number of the newest observations from which a correction is learned."""
MIN_FOR_BAND = 3
"""Smallest number of past jobs of the model on the family with which their scatter replaces the band of an estimate."""
BAND_SHARE = 0.9
"""Share of the jobs whose time is expected within the band."""
T_QUANTILES_95 = {3: 2.920, 4: 2.353, 5: 2.132, 6: 2.015, 7: 1.943, 8: 1.895}
"""Maps a number n of jobs to the 95th percentile of Student's t distribution with n - 1 degrees of freedom. From 9 jobs
on, it is not used."""


@dataclass(frozen=True)
class Observation:
    """A past job with its prediction.

    Attributes:
        model: name of the model.
        family: family of the instance type.
        predicted_s: predicted training time without any correction, seconds.
        actual_s: time that the training took, without the work that interruptions undid, seconds.
        predicted_usd: predicted cost without any correction, USD; None if it is not known.
        actual_usd: cost of the job, USD; None if it is not known.
        basis: what the prediction came from: see `Basis`.

    Raises:
        SpecError: a time is not positive.
    """

    model: str
    family: str
    predicted_s: float
    actual_s: float
    predicted_usd: float | None = None
    actual_usd: float | None = None
    basis: Basis = "formula"

    def __post_init__(self) -> None:
        """Check the times."""
        if not (self.predicted_s > 0 and self.actual_s > 0):
            raise SpecError(f"times must be positive: {self.predicted_s} and {self.actual_s} s.")

    @property
    def log_ratio(self) -> float:
        """Logarithm of actual / predicted."""
        return math.log(self.actual_s / self.predicted_s)


@dataclass(frozen=True)
class Correction:
    """The factors by which predictions are multiplied.

    Attributes:
        factor: factor of the most likely time.
        low: lower end of the band, as a multiple of the corrected time; None keeps the band of the estimate.
        high: upper end of the band, likewise.
        jobs: number of past jobs of the same model and family.
    """

    factor: float = 1.0
    low: float | None = None
    high: float | None = None
    jobs: int = 0


@dataclass(frozen=True)
class Accuracy:
    """The errors of the predictions of past jobs, each corrected only by the jobs before it.

    Attributes:
        jobs: number of past jobs.
        raw_error: median error of the time without correction. With 0.3, the longer one of the predicted and the actual
            time is 30 % longer than the other.
        corrected_error: median error of the time with correction.
        first_error: `corrected_error` of the first half of the jobs.
        last_error: `corrected_error` of the second half of the jobs.
        cost_error: median error of the cost with correction; None if no cost was predicted.
    """

    jobs: int
    raw_error: float
    corrected_error: float
    first_error: float
    last_error: float
    cost_error: float | None

    def describe(self) -> str:
        """Return the errors in one sentence."""
        cost = f" and of the cost by {self.cost_error:.0%}" if self.cost_error is not None else ""
        return (
            f"{self.jobs} past job(s): predictions of the time were off by {self.raw_error:.0%} without correction, by "
            f"{self.corrected_error:.0%} with the correction learned from earlier jobs{cost} (median; first half "
            f"{self.first_error:.0%}, second half {self.last_error:.0%})."
        )


def learn_correction(
    observations: Sequence[Observation], model: str, family: str, basis: Basis = "formula"
) -> Correction:
    """Learn the correction for a model on a family of instances.

    The logarithm of its factor is a median of log(actual / predicted), computed for three groups of jobs, one after the
    other: of the other models, of the model on other families, and of the model on this family. Each median is shrunk
    toward the result of the group before it, the first one toward 0: with `n` jobs, a group's own median has the weight
    `n / (n + PRIOR_JOBS)`. A few jobs that went wrong hardly change a median.

    Args:
        observations: past jobs, oldest first.
        model: name of the model.
        family: family of the instance type.
        basis: what the prediction comes from. Only jobs whose prediction had the same basis are used.
    """
    newest_observations = [entry for entry in observations if entry.basis == basis][-MAX_OBSERVATIONS:]
    pair_observations = [entry for entry in newest_observations if (entry.model, entry.family) == (model, family)]
    model_observations = [entry for entry in newest_observations if entry.model == model and entry.family != family]
    other_observations = [entry for entry in newest_observations if entry.model != model]
    shift = 0.0
    for group in (other_observations, model_observations, pair_observations):
        weight = len(group) / (len(group) + PRIOR_JOBS)
        shift = weight * median([entry.log_ratio for entry in group]) + (1 - weight) * shift if group else shift
    if len(pair_observations) < MIN_FOR_BAND:
        return Correction(math.exp(shift), jobs=len(pair_observations))
    log_ratios = [entry.log_ratio for entry in pair_observations]
    # The band is around the group's own median: the shrunk median may be far from the times of the group.
    center, width = median(log_ratios) - shift, _compute_band_width(log_ratios)
    low, high = min(1.0, math.exp(center - width)), max(1.0, math.exp(center + width))
    return Correction(math.exp(shift), low, high, len(pair_observations))


def _compute_band_width(log_ratios: Sequence[float]) -> float:
    """Return the distance from the median within which the next value lies with a probability of `BAND_SHARE`.

    From 9 values on, the result is one of the past distances, chosen by rank. This assumes no distribution, and a few
    jobs that went wrong hardly change it (split conformal prediction; Lei et al. 2018, section 2.2). With fewer values,
    no rank is high enough. Then the result is half of the prediction interval of a normal distribution,
    `t * s * sqrt(1 + 1 / n)`, with the quantile t, the standard deviation s and the number n of the values.

    Args:
        log_ratios: logarithms of actual / predicted, at least `MIN_FOR_BAND`.
    """
    count, center = len(log_ratios), median(log_ratios)
    rank = math.ceil(BAND_SHARE * (count + 1))
    if rank <= count:
        return sorted(abs(value - center) for value in log_ratios)[rank - 1]
    return T_QUANTILES_95[count] * stdev(log_ratios) * math.sqrt(1 + 1 / count)


def measure_accuracy(observations: Sequence[Observation]) -> Accuracy | None:
    """Measure how wrong predictions were, each corrected only by the jobs before it; None without observations."""
    if not observations:
        return None
    factors = [
        learn_correction(observations[:index], entry.model, entry.family, entry.basis).factor
        for index, entry in enumerate(observations)
    ]
    errors = [
        _compute_error(entry.actual_s, entry.predicted_s * factor)
        for entry, factor in zip(observations, factors, strict=True)
    ]
    cost_errors = [
        _compute_error(entry.actual_usd, entry.predicted_usd * factor)
        for entry, factor in zip(observations, factors, strict=True)
        if entry.predicted_usd and entry.actual_usd
    ]
    half = max(1, len(errors) // 2)
    return Accuracy(
        jobs=len(observations),
        raw_error=median([_compute_error(entry.actual_s, entry.predicted_s) for entry in observations]),
        corrected_error=median(errors),
        first_error=median(errors[:half]),
        last_error=median(errors[half:] or errors),
        cost_error=median(cost_errors) if cost_errors else None,
    )


Corrector = Callable[[str, Basis], Correction]
"""Function that returns the correction for a family of instances and the basis of a prediction."""


def make_corrector(observations: Sequence[Observation], model: str) -> Corrector:
    """Return the function that finds the corrections for a model. Each correction is learned once."""
    corrections: dict[tuple[str, Basis], Correction] = {}

    def find(family: str, basis: Basis) -> Correction:
        if (family, basis) not in corrections:
            corrections[family, basis] = learn_correction(observations, model, family, basis)
        return corrections[family, basis]

    return find


def _compute_error(actual_value: float, predicted_value: float) -> float:
    """Return the relative error, the same for twice as much and half as much: max(a / p, p / a) - 1."""
    return max(actual_value / predicted_value, predicted_value / actual_value) - 1
