"""Test which file of tests a free worker gets next."""

from tests.tools.scheduling import choose_scope

QUEUE = ["a long", "another long", "medium", "short"]
LONG = {"a long", "another long", "running long"}


def test_longest_scope_is_first():
    assert choose_scope(QUEUE, LONG, long_workers=0, workers=6) == "a long"
    assert choose_scope(QUEUE, LONG, long_workers=2, workers=6) == "a long"


def test_half_of_the_workers_run_no_long_scope():
    assert choose_scope(QUEUE, LONG, long_workers=3, workers=6) == "short"


def test_long_scopes_run_together_when_no_other_is_left():
    assert choose_scope(QUEUE[:2], LONG, long_workers=3, workers=6) == "a long"


def test_one_worker_runs_the_longest_first():
    assert choose_scope(QUEUE, LONG, long_workers=0, workers=1) == "a long"
