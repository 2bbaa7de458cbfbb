"""Estimate a confidence band of a number from the ranges of its inputs. Needs no library."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from pipelines.errors import SpecError

SAMPLES = 2000
"""Number of samples of a band. With 2,000, the probability is 96 % that the lower end is between the exact 4th and 6th
percentiles. The same is true of the upper end, between the 94th and the 96th."""
SHARES = (0.05, 0.5, 0.95)
"""Shares of the samples below the lower end, the median and the upper end."""
MAX_RANGES = 12
"""Largest number of ranges, because all combinations of their ends are computed."""


@dataclass(frozen=True)
class Range:
    """A number that is known only within limits.

    Attributes:
        low: smallest value.
        high: largest value; equal to `low` if the number is known.

    Raises:
        SpecError: a limit is infinite or not a number, or the limits are in the wrong order.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the limits."""
        if not -float("inf") < self.low <= self.high < float("inf"):
            raise SpecError(f"{self.low}..{self.high} is not a range.", "Write LOW..HIGH, with LOW at most HIGH.")

    @property
    def middle(self) -> float:
        """The mean of both limits."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Band:
    """The likely range of a number.

    Attributes:
        lowest: smallest value of all combinations of the limits.
        low: value below which 5 % of the samples are.
        median: value below which half of the samples are.
        high: value below which 95 % of the samples are.
        highest: largest value of all combinations of the limits.
    """

    lowest: float
    low: float
    median: float
    high: float
    highest: float


def estimate_band(
    compute: Callable[..., float], ranges: Mapping[str, Range], *, samples: int = SAMPLES, seed: int = 0
) -> Band:
    """Return the band of a number, by seeded sampling and from the ends of the ranges.

    `low`, `median` and `high` are quantiles of samples: each number of `ranges` is drawn independently, and each value
    between its limits is as likely as any other. `lowest` and `highest` are the extremes of all combinations of the
    limits: the exact bounds, if the result only grows or only falls with each number. The seed is fixed, so the band is
    reproducible.

    The band is too narrow if the ranges are too narrow, or if `compute` leaves something out.

    Args:
        compute: function that gets the numbers as keyword arguments, by their names.
        ranges: maps the name of each number to its limits.
        samples: number of samples, at least 1.
        seed: seed of the samples.

    Raises:
        SpecError: there are too many ranges, or `compute` refuses a value. A retry cannot help.
    """
    if len(ranges) > MAX_RANGES:
        raise SpecError(f"there are {len(ranges)} ranges; at most {MAX_RANGES} are possible.")
    limits = [(number.low, number.high) for number in ranges.values()]
    corners = [compute(**dict(zip(ranges, corner, strict=True))) for corner in product(*limits)]
    generator = random.Random(seed)  # noqa: S311 - no secret
    values = sorted(
        compute(**{name: generator.uniform(number.low, number.high) for name, number in ranges.items()})
        for _ in range(samples)
    )
    low, median, high = (values[min(samples - 1, int(share * samples))] for share in SHARES)
    return Band(min(corners), low, median, high, max(corners))
