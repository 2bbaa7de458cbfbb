"""FinalMetricDataList: the last value that each of MetricDefinitions' regexes found in the log."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any


class FinalMetrics:
    """The last value of each metric so far. Written by one thread; reading it from others is safe."""

    def __init__(self, definitions: Iterable[Mapping[str, str]]) -> None:
        self._patterns = {item["Name"]: re.compile(item["Regex"]) for item in definitions}
        self._last: dict[str, tuple[float, datetime]] = {}

    def read(self, line: str) -> None:
        """Whatever line says of a metric is that metric's last value. What is no number is passed over."""
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(line):
                value = _number(match)
                if value is not None:
                    self._last = {**self._last, name: (value, datetime.now(UTC))}

    def describe(self) -> list[dict[str, Any]]:
        """Return FinalMetricDataList, in the order of the definitions."""
        last = self._last
        return [
            {"MetricName": name, "Value": last[name][0], "Timestamp": last[name][1]}
            for name in self._patterns
            if name in last
        ]


def _number(match: re.Match[str]) -> float | None:
    try:
        return float(match.group(1))
    except (IndexError, TypeError, ValueError):
        return None
