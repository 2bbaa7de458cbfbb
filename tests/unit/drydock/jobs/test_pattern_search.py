"""Test that a slow regular expression of a client ends, and that nothing else waits for it."""

import os
import signal
from collections.abc import Iterator

import pytest

from drydock.jobs.pattern_search import PatternSearch

SLOW, SLOW_LINE = "(a+)+b=([0-9.]+)", "a" * 60


@pytest.fixture
def search() -> Iterator[PatternSearch]:
    """Return a search with a short limit."""
    search = PatternSearch(limit_s=0.2)
    yield search
    search.close()


def test_groups_of_all_matches_are_found_in_order(search: PatternSearch) -> None:
    lines = ["auc=0.5 auc=0.6", "nothing", "auc=\u00fc\udcff auc="]
    assert search.find(r"auc=(\S+)?", lines) == ["0.5", "0.6", "\u00fc\udcff", None]
    assert search.find("auc", lines) == []  # the expression has no group
    assert search.find("(x)", []) == []


def test_slow_expression_is_ignored_from_then_on_and_others_are_searched(
    search: PatternSearch, caplog: pytest.LogCaptureFixture
) -> None:
    assert search.find(SLOW, [SLOW_LINE]) == []
    (message,) = caplog.messages
    assert SLOW in message and "is ignored from now on" in message
    assert search.find("loss=([0-9]+)", ["loss=5"]) == ["5"]
    assert search.find(SLOW, ["aab=1"]) == []
    assert PatternSearch().find(SLOW, ["aab=1"]) == ["aa"], "the negative control"
    assert len(caplog.messages) == 1


def test_killed_process_is_replaced(search: PatternSearch) -> None:
    assert search.find("(x)", ["x"]) == ["x"]
    assert search._process is not None
    os.kill(search._process.pid, signal.SIGKILL)
    search._process.wait()
    assert search.find("(x)", ["x", "x"]) == ["x", "x"]
    assert search._slow_regexes == set()


def test_large_line_is_searched(search: PatternSearch) -> None:
    assert search.find("loss=([0-9.]+);", ["x" * 10_000_000 + "loss=0.5;"]) == ["0.5"]
