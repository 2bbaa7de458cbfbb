"""Predict the time of a training from the amount of its data and the times of past jobs on the same machines.

The time is taken as a fixed part and a part in proportion to the data, `fixed_s + s_per_byte * bytes`, neither of them
negative. The line is robust (Theil 1950, Sen 1968): its slope is the median of the slopes between two jobs each, so a
few jobs that went wrong hardly change it. `scipy.stats.theilslopes` is not used, because it cannot leave out pairs of
nearly equal sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from pipelines.errors import SpecError

MIN_RATIO = 1.25
"""Two jobs say how the time depends on the size only if their sizes differ by at least this factor. Otherwise the
differences of their times are mostly chance."""
GROWTH = 1.25
"""Power of the size with which the time grows at worst beyond the sizes of the past jobs. It is a guess that leaves
room for sorting, and for data that does not fit in caches any more."""
FAR_RATIO = 1.5
"""A risk is reported if the size is smaller than all sizes of past jobs, or larger, by at least this factor."""
UNITS: dict[str, int] = {name: 1_000**power for power, name in enumerate(("B", "KB", "MB", "GB", "TB", "PB"))} | {
    name: 1_024**power for power, name in enumerate(("KiB", "MiB", "GiB", "TiB", "PiB"), 1)
}
SIZE = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(UNITS)})")
MAX_BYTES = 2.0**60
"""Largest amount of data, 1 EiB. A larger one is refused as a mistake."""


@dataclass(frozen=True)
class SizedJob:
    """A past job: the bytes of its data, and its time, seconds. Both are positive."""

    data_bytes: float
    seconds: float


@dataclass(frozen=True)
class Line:
    """A time that is a fixed part, seconds, and a part in proportion to the bytes of the data."""

    fixed_s: float
    s_per_byte: float

    def compute_s(self, data_bytes: float) -> float:
        """Return the time for an amount of data, seconds."""
        return self.fixed_s + self.s_per_byte * data_bytes


@dataclass(frozen=True)
class SizedTime:
    """The time that is predicted for an amount of data.

    Attributes:
        seconds: most likely time.
        extrapolation: factors that widen the lower and the upper end of its band; 1 for an amount of data within the
            sizes of the past jobs.
        risk: a text if the amount of data is far outside of the sizes of the past jobs; else empty.
    """

    seconds: float
    extrapolation: tuple[float, float] = (1.0, 1.0)
    risk: str = ""


@dataclass(frozen=True)
class TimeBySize:
    """How the time of the past jobs on some machines depends on the amount of their data.

    Attributes:
        jobs: number of past jobs from which the time is predicted.
        smallest: least data of a past job, bytes.
        largest: most data of a past job, bytes.
        line: the line through their times; None if their sizes are too similar.
        median_s: median of their times, seconds.
        spread: largest factor between the time of a past job and the predicted one.
    """

    jobs: int
    smallest: float
    largest: float
    line: Line | None
    median_s: float
    spread: float

    def predict(self, data_bytes: float) -> SizedTime:
        """Predict the time for an amount of data.

        Outside of the sizes of the past jobs, the band reaches from the time at the nearest size, as if the whole time
        were fixed, to a time that grows with the power `GROWTH` of the size. The line lies between both. Without a
        line, the fixed part is not known. Then the geometric mean of a fixed time and a time in proportion to the data
        is returned: its largest error is the same factor, whichever of the two times is true.
        """
        nearest = min(max(data_bytes, self.smallest), self.largest)
        nearest_s = self.line.compute_s(nearest) if self.line else self.median_s
        ratio = data_bytes / nearest
        seconds = self.line.compute_s(data_bytes) if self.line else nearest_s * math.sqrt(ratio)
        low_s, high_s = sorted((nearest_s, nearest_s * ratio**GROWTH))
        return SizedTime(seconds, (min(1.0, low_s / seconds), max(1.0, high_s / seconds)), self._describe_risk(ratio))

    def describe_sizes(self) -> str:
        """Return the sizes of the past jobs: one, or the smallest and the largest."""
        texts = dict.fromkeys((format_bytes(self.smallest), format_bytes(self.largest)))
        return " to ".join(texts)

    def _describe_risk(self, ratio: float) -> str:
        if max(ratio, 1 / ratio) < FAR_RATIO:
            return ""
        return (
            f"past jobs had {self.describe_sizes()} of data: the time is extrapolated"
            f"{', and more memory may be needed' if ratio > 1 else ''}"
        )


def fit_times(jobs: Sequence[SizedJob], median_jobs: int) -> TimeBySize:
    """Fit how the time of past jobs depends on the amount of their data.

    Args:
        jobs: past jobs on the same machines, oldest first; at least one.
        median_jobs: number of the newest jobs whose median is used if there is no line.
    """
    line, sizes = fit_line(jobs), [job.data_bytes for job in jobs]
    newest_jobs = jobs if line else jobs[-median_jobs:]
    median_s = median([job.seconds for job in newest_jobs])
    ratios = [job.seconds / (line.compute_s(job.data_bytes) if line else median_s) for job in newest_jobs]
    spread = max(max(ratio, 1 / ratio) for ratio in ratios)
    return TimeBySize(len(newest_jobs), min(sizes), max(sizes), line, median_s, spread)


def fit_line(jobs: Sequence[SizedJob]) -> Line | None:
    """Fit the line through the times of past jobs; None if no two of them differ by `MIN_RATIO` in size."""
    slopes = [
        (other.seconds - job.seconds) / (other.data_bytes - job.data_bytes)
        for job, other in combinations(sorted(jobs, key=lambda job: job.data_bytes), 2)
        if other.data_bytes >= MIN_RATIO * job.data_bytes
    ]
    if not slopes:
        return None
    s_per_byte = max(0.0, median(slopes))
    fixed_s = median([job.seconds - s_per_byte * job.data_bytes for job in jobs])
    if fixed_s >= 0:
        return Line(fixed_s, s_per_byte)
    return Line(0.0, median([job.seconds / job.data_bytes for job in jobs]))


def parse_data_size(option: str, text: str) -> float | None:
    """Return the bytes of an amount of data, such as 3GiB or 500 MB; None for an empty text.

    Raises:
        SpecError: the text is no amount of data with a unit, or less than 1 byte, or too large. A retry cannot help.
    """
    if not text:
        return None
    match = SIZE.fullmatch(text.strip())
    if not match:
        raise SpecError(f"{option} {text!r} is not an amount of data.", "Write it with its unit, as 3GiB or 500MB.")
    data_bytes = float(match[1]) * UNITS[match[2]]
    if not 1 <= data_bytes <= MAX_BYTES:
        raise SpecError(f"{option} must be from 1 B to 1024 PiB, not {text}.", "Write it as 3GiB or 500MB.")
    return data_bytes


def format_bytes(data_bytes: float) -> str:
    """Format an amount of data with three digits: 1.23 GiB."""
    name = next((name for name in ("PiB", "TiB", "GiB", "MiB", "KiB") if data_bytes >= 0.9995 * UNITS[name]), "B")
    return f"{data_bytes / UNITS[name]:.3g} {name}" if name != "B" else f"{data_bytes:.0f} B"
