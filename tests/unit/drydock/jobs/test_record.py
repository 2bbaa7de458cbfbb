"""Test a job's record as text, and its running time."""

from datetime import UTC, datetime, timedelta

import pytest

from drydock.jobs.record import Record, Transition, measure_running_s
from drydock.jobs.states import Phase, Status
from drydock.jobs.training.job import TrainingJob

START = datetime(2013, 1, 1, tzinfo=UTC)


def build_transition(phase: Phase, begin: float, end: float | None) -> Transition:
    until = None if end is None else START + timedelta(seconds=end)
    return Transition(phase, START + timedelta(seconds=begin), "m", until)


def test_a_record_is_restored_from_its_text(job: TrainingJob) -> None:
    job.enter_phase(Phase.TRAINING)
    job.record.metrics = {"auc": (0.5, START)}
    job.record_exit("exit", 1)
    job.end(Status.FAILED, Phase.FAILED, "line\n\u2603 'quoted'")
    assert Record.load(job.record.dump()) == job.record


def test_refuses_text_that_is_not_a_record() -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Record.load("{}")


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ([build_transition(Phase.STARTING, 0, None)], 0),
        (
            [
                build_transition(Phase.STARTING, 0, 5),
                build_transition(Phase.DOWNLOADING, 5, 6),
                build_transition(Phase.TRAINING, 6, None),
            ],
            15,
        ),
        (
            [
                build_transition(Phase.TRAINING, 0, 3),
                build_transition(Phase.INTERRUPTED, 3, 18),
                build_transition(Phase.TRAINING, 18, None),
            ],
            5,
        ),
        # A stop while it runs is running time, a stop while it waits is not.
        (
            [
                build_transition(Phase.TRAINING, 0, 3),
                build_transition(Phase.STOPPING, 3, 4),
                build_transition(Phase.STOPPED, 4, 4),
            ],
            4,
        ),
        (
            [
                build_transition(Phase.INTERRUPTED, 0, 3),
                build_transition(Phase.STOPPING, 3, 4),
                build_transition(Phase.STOPPED, 4, 4),
            ],
            0,
        ),
    ],
)
def test_only_time_with_instances_counts(lines: list[Transition], seconds: float) -> None:
    assert measure_running_s(lines, START + timedelta(seconds=20)) == seconds
