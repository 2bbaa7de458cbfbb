"""Count after how many interruptions a job restored a checkpoint, and after how many it began anew."""

from __future__ import annotations

from itertools import zip_longest

from pipelines.costs.charges import INTERRUPTED, Job

RESTORE_COLUMNS = ("resumes", "cold_starts")
"""Columns of the ledger: interruptions after which the script restored a checkpoint, and after which it did not."""


def count_restores(job: Job) -> dict[str, int]:
    """Return the values of `RESTORE_COLUMNS` for a job.

    Only the first start of the script after an interruption is examined. An interruption after which the script did not
    start again, or did not report its start, is counted in neither column.
    """
    interruptions = sorted(entry.start for entry in job.transitions if entry.status == INTERRUPTED)
    starts = sorted(job.restored, key=lambda start: start.at)
    counts = dict.fromkeys(RESTORE_COLUMNS, 0)
    for interruption, next_interruption in zip_longest(interruptions, interruptions[1:]):
        next_starts = [
            start
            for start in starts
            if start.at >= interruption and (next_interruption is None or start.at < next_interruption)
        ]
        if next_starts:
            counts["resumes" if next_starts[0].saved_at else "cold_starts"] += 1
    return counts
