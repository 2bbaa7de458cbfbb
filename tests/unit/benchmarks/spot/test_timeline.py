"""Test what the benchmark of interruptions says of each interruption."""

import datetime as dt

from benchmarks.spot.timeline import Loss, Moment, Start, measure_losses, parse_starts

CREATED_AT = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)


def after(seconds: float) -> dt.datetime:
    """Return a time after the creation of the job."""
    return CREATED_AT + dt.timedelta(seconds=seconds)


def test_each_interruption_has_a_moment_and_a_loss():
    starts = [Start(after(3), None), Start(after(8), None), Start(after(20), after(11))]
    losses = measure_losses(CREATED_AT, [after(1), after(5), after(12), after(15)], starts)
    assert losses == [
        Loss(Moment.BEFORE_START, 0.0),
        Loss(Moment.BEFORE_CHECKPOINT, 2.0),
        Loss(Moment.AFTER_CHECKPOINT, 1.0),
        Loss(Moment.BEFORE_START, 0.0),
    ]


def test_a_checkpoint_of_an_earlier_attempt_is_not_saved_work_of_this_one():
    starts = [Start(after(1), None), Start(after(7), after(4)), Start(after(11), after(4))]
    losses = measure_losses(CREATED_AT, [after(5), after(10)], starts)
    assert [loss.lost_s for loss in losses] == [1.0, 3.0]


def test_starts_are_read_from_the_log_in_order():
    events = [
        {"timestamp": 5_000, "message": "checkpoint restored: name=000175 saved_at=1970-01-01T00:00:03+00:00"},
        {"timestamp": 4_000, "message": "round 175"},
        {"timestamp": 1_000, "message": "checkpoint restored: none"},
    ]
    epoch = dt.datetime.fromtimestamp(0, dt.UTC)
    second = dt.timedelta(seconds=1)
    assert parse_starts(events) == [Start(epoch + second, None), Start(epoch + 5 * second, epoch + 3 * second)]
