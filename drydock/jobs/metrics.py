"""FinalMetricDataList: for each entry of MetricDefinitions, the last value in the log that matches its regex."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime


class FinalMetrics:
    """The last value of each metric so far. One thread writes; other threads may read.

    Args:
        definitions: The request's MetricDefinitions.
    """

    def __init__(self, definitions: Iterable[Mapping[str, str]]) -> None:
        self._patterns = {definition["Name"]: re.compile(definition["Regex"]) for definition in definitions}
        self.last_values: dict[str, tuple[float, datetime]] = {}
        """The last value of each metric and when it was logged, by the metric's name."""

    def read_line(self, line: str) -> None:
        """Update the metrics from one line of the log. A match that is not a finite number is ignored."""
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(line):
                value = _parse_number(match)
                if value is not None:
                    self.last_values = {**self.last_values, name: (value, datetime.now(UTC))}


def _parse_number(match: re.Match[str]) -> float | None:
    try:
        value = float(match.group(1))
    except (IndexError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None  # JSON has no infinity and no NaN
