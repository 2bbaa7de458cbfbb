"""Test how interruptions are counted after which a job restored a checkpoint."""

import datetime as dt
from typing import Any

from pipelines.costs.charges import Job
from pipelines.costs.restored_checkpoints import count_restores

BEGIN = dt.datetime(2026, 11, 2, tzinfo=dt.UTC)


def count(interruptions, starts):
    """Count for a job: seconds of its interruptions, and second of each start to whether it restored a checkpoint."""

    def at(second):
        return BEGIN + dt.timedelta(seconds=second)

    transitions: Any = [{"status": "Interrupted", "start": at(second)} for second in interruptions]
    restored: Any = [
        {"at": at(second), "saved_at": BEGIN if is_restored else ""} for second, is_restored in starts.items()
    ]
    job = Job(
        **{"name": "j", "arn": "a", "status": "Completed", "instance_type": "ml.m5.large", "instance_count": 1},
        **{"spot": True, "created": BEGIN, "training_s": 1, "billable_s": 1},
        transitions=transitions,
        restored=restored,
    )
    return tuple(count_restores(job).values())


def test_first_start_after_each_interruption_counts():
    assert count([], {1: False}) == (0, 0)
    assert count([10], {1: False, 12: True}) == (1, 0)
    assert count([10, 20], {1: False, 12: True, 22: False, 25: True}) == (1, 1)


def test_interruption_without_a_later_start_counts_in_neither():
    assert count([10], {1: False}) == (0, 0)
    assert count([10, 20], {1: False, 22: True}) == (1, 0)
