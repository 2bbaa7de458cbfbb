"""Test the check that a task never had two live jobs."""

import datetime as dt

import pytest

from tests.tools.job_times import check_job_times, find_end

ONE, TWO, THREE, FOUR = (dt.datetime(2026, 1, 1, hour, tzinfo=dt.UTC) for hour in (1, 2, 3, 4))


@pytest.mark.parametrize("times", [[(ONE, None)], [(ONE, TWO), (TWO, THREE), (FOUR, None)]])
def test_jobs_one_after_the_other_pass(times):
    check_job_times(times)


@pytest.mark.parametrize("times", [[(ONE, THREE), (TWO, FOUR)], [(ONE, None), (TWO, THREE)]])
def test_two_live_jobs_are_found(times):
    with pytest.raises(AssertionError, match="two jobs were live at once"):
        check_job_times(times)


def test_a_job_that_never_started_ended_at_its_last_change():
    job = {"TrainingJobStatus": "Stopped", "LastModifiedTime": TWO}
    assert find_end(job, "Training") == TWO
    assert find_end({**job, "TrainingEndTime": ONE}, "Training") == ONE
    assert find_end({**job, "TrainingJobStatus": "Stopping"}, "Training") is None
