"""Parse the values of metrics that were found in the lines of a job's log."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime


class FinalMetrics:
    """The last value of each metric so far, for FinalMetricDataList. One thread writes; other threads may read.

    Args:
        last_values: The values so far.
    """

    def __init__(self, last_values: Mapping[str, tuple[float, datetime]]) -> None:
        self.last_values: Mapping[str, tuple[float, datetime]] = last_values
        """The last value of each metric and when it was logged, by the metric's name."""

    def update(self, name: str, texts: Sequence[str | None], printed_at: datetime) -> None:
        """Update the last value of a metric from the texts that its Regex has found.

        A text is ignored if it is not a finite number, or if it was printed before the metric's last value.
        """
        values = [value for value in parse_series(texts) if value is not None]
        if values and (name not in self.last_values or printed_at >= self.last_values[name][1]):
            self.last_values = {**self.last_values, name: (values[-1], printed_at)}


def parse_series(texts: Sequence[str | None]) -> list[float | None]:
    """Return the numbers among texts, in order; None for a number that JSON does not have, such as nan."""
    values: list[float | None] = []
    for text in texts:
        try:
            value = float(text or "")
        except ValueError:
            continue
        values.append(value if math.isfinite(value) else None)
    return values
