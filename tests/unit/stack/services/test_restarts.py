"""Test how long a service waits for its restart, and when it is given up."""

import signal

from stack.services.restarts import MAX_FAILED_STARTS, MAX_PAUSE_S, MAX_RESTARTS, STABLE_S, RestartCounter

KILLED = -signal.SIGKILL


def test_pause_doubles_up_to_its_maximum():
    counter = RestartCounter()
    pauses = [counter.record_end(KILLED, True, 1.0) for _ in range(8)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, MAX_PAUSE_S, MAX_PAUSE_S, MAX_PAUSE_S]


def test_first_pause_comes_again_after_a_calm_time():
    counter = RestartCounter()
    for _ in range(5):
        counter.record_end(KILLED, True, 1.0)
    assert counter.record_end(KILLED, True, STABLE_S) == 0.5


def test_service_that_hangs_and_never_answers_has_no_calm_time():
    counter = RestartCounter()
    pauses = [counter.record_end(1, False, STABLE_S) for _ in range(MAX_FAILED_STARTS)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, None]


def test_twenty_kills_of_one_service_are_restarted_and_not_more():
    counter = RestartCounter()
    assert all(counter.record_end(KILLED, index % 2 == 0, 1.0) is not None for index in range(MAX_RESTARTS))
    assert counter.record_end(KILLED, True, 1.0) is None


def test_service_that_ends_by_itself_before_it_answers_is_given_up_early():
    counter = RestartCounter()
    assert all(counter.record_end(1, False, 1.0) is not None for _ in range(MAX_FAILED_STARTS - 1))
    assert counter.record_end(0, False, 1.0) is None


def test_an_answer_or_a_kill_between_failed_starts_counts():
    for exit_code, has_answered in ((1, True), (KILLED, False)):
        counter = RestartCounter()
        for _ in range(MAX_FAILED_STARTS - 1):
            counter.record_end(1, False, 1.0)
        assert counter.record_end(exit_code, has_answered, 1.0) is not None
        assert counter.record_end(1, False, 1.0) is not None
