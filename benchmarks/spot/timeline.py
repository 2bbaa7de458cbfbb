"""Compute the work that each interruption of a job lost, from the times of interruptions and of the script's starts."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

RESTORED_PATTERN = re.compile(r"checkpoint restored: (?:none|name=\S+ saved_at=(\S+))")


class Moment(StrEnum):
    """When an interruption came."""

    BEFORE_START = "before_start"
    """Before the script of this attempt had looked for a checkpoint."""
    BEFORE_CHECKPOINT = "before_checkpoint"
    """Before any checkpoint was in S3, so that the next attempt started from the beginning."""
    AFTER_CHECKPOINT = "after_checkpoint"
    """The next attempt restored a checkpoint."""


@dataclass(frozen=True)
class Start:
    """A start of the script's work: its time, and when the restored checkpoint was saved (None without one)."""

    at: dt.datetime
    saved_at: dt.datetime | None


@dataclass(frozen=True)
class Loss:
    """The work that one interruption lost: when it came, and the seconds of work that have to be repeated."""

    moment: Moment
    lost_s: float


def measure_losses(created_at: dt.datetime, stops: Sequence[dt.datetime], starts: Sequence[Start]) -> list[Loss]:
    """Return the loss of each interruption.

    Work is lost from the last checkpoint (the one that the next attempt restored), or from the start of the work if
    there was none. Nothing is lost if the attempt had not started its work.

    Args:
        created_at: when the job was created.
        stops: times of the interruptions, in order.
        starts: starts of the script's work, in order; the last one is after the last interruption.
    """
    return [
        _measure_loss(attempt_start, stop, starts) for attempt_start, stop in itertools.pairwise([created_at, *stops])
    ]


def _measure_loss(attempt_start: dt.datetime, stop: dt.datetime, starts: Sequence[Start]) -> Loss:
    work_start = next((start.at for start in starts if attempt_start <= start.at < stop), None)
    if work_start is None:
        return Loss(Moment.BEFORE_START, 0.0)
    saved_at = next(start.saved_at for start in starts if start.at >= stop)
    lost_s = (stop - max(work_start, saved_at or work_start)).total_seconds()
    return Loss(Moment.AFTER_CHECKPOINT if saved_at else Moment.BEFORE_CHECKPOINT, max(0.0, lost_s))


def parse_starts(events: Sequence[Mapping[str, Any]]) -> list[Start]:
    """Return the starts of the script's work in the log events (CloudWatch Logs) of a job, in order."""
    starts = [
        Start(
            dt.datetime.fromtimestamp(event["timestamp"] / 1000, dt.UTC),
            dt.datetime.fromisoformat(match.group(1)) if match.group(1) else None,
        )
        for event in events
        if (match := RESTORED_PATTERN.search(event["message"]))
    ]
    return sorted(starts, key=lambda start: start.at)
