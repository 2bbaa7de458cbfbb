"""Find the values of metrics in the lines of a job's log."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime


class FinalMetrics:
    """The last value of each metric so far, for FinalMetricDataList. One thread writes; other threads may read.

    Args:
        definitions: The request's MetricDefinitions.
        last_values: The values so far.
    """

    def __init__(
        self, definitions: Iterable[Mapping[str, str]], last_values: Mapping[str, tuple[float, datetime]]
    ) -> None:
        self._patterns = {definition["Name"]: re.compile(definition["Regex"]) for definition in definitions}
        self.last_values: Mapping[str, tuple[float, datetime]] = last_values
        """The last value of each metric and when it was logged, by the metric's name."""

    def update_from_line(self, line: str, printed_at: datetime) -> None:
        """Update the last values from one line of the log.

        A match is ignored if it is not a finite number, or if it was printed before the metric's last value.
        """
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(line):
                value = _parse_number(match)
                if value is not None and (name not in self.last_values or printed_at >= self.last_values[name][1]):
                    self.last_values = {**self.last_values, name: (value, printed_at)}


def read_series(regex: str, lines: Iterable[str]) -> list[float | None]:
    """Return the values of one metric in lines of the log, in order; None for a value that is not finite, such as nan.

    Args:
        regex: The Regex of the metric's definition.
        lines: Lines of the log.
    """
    values: list[float | None] = []
    for line in lines:
        for match in re.finditer(regex, line):
            try:
                value = float(match.group(1))
            except (IndexError, TypeError, ValueError):
                continue
            values.append(value if math.isfinite(value) else None)
    return values


def _parse_number(match: re.Match[str]) -> float | None:
    try:
        value = float(match.group(1))
    except (IndexError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None  # JSON has no infinity and no NaN
