"""FinalMetricDataList: the last value that each of MetricDefinitions' regexes found in the log."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime


class FinalMetrics:
    """The last value of each metric so far. Written by one thread; reading it from others is safe."""

    def __init__(self, definitions: Iterable[Mapping[str, str]]) -> None:
        self._patterns = {item["Name"]: re.compile(item["Regex"]) for item in definitions}
        self.last: dict[str, tuple[float, datetime]] = {}
        """The last value and its moment, by the metric's name."""

    def read(self, line: str) -> None:
        """Whatever line says of a metric is that metric's last value. What is no number is passed over."""
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(line):
                value = _number(match)
                if value is not None:
                    self.last = {**self.last, name: (value, datetime.now(UTC))}


def _number(match: re.Match[str]) -> float | None:
    try:
        value = float(match.group(1))
    except (IndexError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None  # JSON has no other numbers
