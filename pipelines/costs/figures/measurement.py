"""Define the result of a computation from rows of the ledger: a value, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.costs.charges import HOUR_S
from pipelines.costs.periods import Period

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Measurement:
    """A value that was computed from rows of the ledger.

    Attributes:
        value: the value; None if it is not known.
        jobs: number of jobs, or of experiments, from which it was computed.
        reason: why the value is not known; empty if it is known.
    """

    value: float | None
    jobs: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Evidence:
    """The rows of the ledger from which the key figures (KPIs) are computed.

    Attributes:
        rows: rows of the ledger of jobs.
        period: the time that the rows cover.
    """

    rows: Sequence[Row]
    period: Period

    @property
    def trainings(self) -> list[Row]:
        """The training jobs among the rows."""
        return [row for row in self.rows if ":training-job/" in row["arn"]]


def measure_quotient(part: float, total: float, jobs: int, reason: str) -> Measurement:
    """Return part / total as a measurement. If the total is 0, the value is not known, for the given reason."""
    return Measurement(part / total, jobs) if total else Measurement(None, jobs, reason)


def find_percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by the nearest-rank method: with `share` 0.95, 95 % of the values are at or below it."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def compute_instance_h(row: Row) -> float:
    """Return the instance hours of a job: its training hours times its number of instances."""
    return float(row["training_s"] * row["instance_count"] / HOUR_S)
