"""Check, by the times that SageMaker recorded, that a task never had two live jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

LIVE = ("InProgress", "Stopping")


def find_end(job: Mapping[str, Any], job_type: str) -> dt.datetime | None:
    """Return when a described job ended; None where it is live. A job that never started has no end time of its own."""
    if job[f"{job_type}JobStatus"] in LIVE:
        return None
    end: dt.datetime = job.get(f"{job_type}EndTime") or job["LastModifiedTime"]
    return end


def check_job_times(times: Sequence[tuple[dt.datetime, dt.datetime | None]]) -> None:
    """Check that each job was created after the end of the one before it.

    Args:
        times: creation and end of each job, in the order of their numbers. The end of a live job is None.
    """
    for (_, end), (creation, _) in pairwise(times):
        assert end is not None and end <= creation, f"two jobs were live at once: {times}"
