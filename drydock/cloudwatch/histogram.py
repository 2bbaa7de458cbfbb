"""Count values in a few buckets, so that percentiles can be computed later without storing the values.

The buckets grow by a constant factor, as in DDSketch (Masson, Rim, Lee: DDSketch, VLDB 2019): a percentile of positive
values differs from the exact one by at most 1 percent. Values of 0 and below count as 0.
"""

import math
from collections import Counter
from collections.abc import Iterable

RELATIVE_ERROR = 0.01
# Logarithm of the factor by which each bucket's upper bound is larger than the one before.
_GROWTH = math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))


class Histogram:
    """The number of values in each bucket. Values of 0 and below share one bucket."""

    def __init__(self) -> None:
        self.counts: Counter[int | None] = Counter()

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[math.ceil(math.log(value) / _GROWTH) if value > 0 else None] += 1

    def dump(self) -> list[tuple[int | None, int]]:
        """Return the buckets and their counts, as JSON values for `load`."""
        return list(self.counts.items())

    def load(self, counts: Iterable[tuple[int | None, int]]) -> None:
        """Replace the counts by those that `dump` returned."""
        self.counts = Counter(dict(counts))

    def iterate(self) -> Iterable[tuple[float, int]]:
        """Yield a value for each bucket, and how many values are in the bucket.

        The value differs by at most 1 percent from those in the bucket. It is 0 for the values of 0 and below.
        """
        for bucket, count in self.counts.items():
            value = 0.0 if bucket is None else 2 * math.exp(bucket * _GROWTH) / (math.exp(_GROWTH) + 1)
            yield value, count


def find_percentile(counted_values: Iterable[tuple[float, float]], percent: float) -> float | None:
    """Return the smallest value that is at least as large as `percent` percent of all values; None without values.

    Args:
        counted_values: Values, and how often each occurs.
        percent: From 0 to 100.
    """
    values = sorted(counted_values)
    # Multiply first, then divide: 99.9 / 100 * 1,000 is more than 999 in floating point.
    remaining_count = percent * sum(count for _, count in values) / 100
    for value, count in values:
        remaining_count -= count
        if remaining_count <= 0:
            return value
    return values[-1][0] if values else None
