"""Test the progress of a loop: on a terminal a bar, elsewhere a line at intervals."""

import logging
from typing import Any

import pytest

from pipelines.system import progress


@pytest.mark.parametrize(("every_s", "lines"), [(0.0, ["days: 0 of 3", "days: 1 of 3", "days: 2 of 3"]), (3600.0, [])])
def test_lines_are_logged_at_the_interval(every_s: float, lines: list[str], caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", every_s)
    with caplog.at_level(logging.INFO, logger="leeway"):
        assert list(progress.track_progress("abc", 3, "days")) == ["a", "b", "c"]
    assert caplog.messages == lines


def test_a_terminal_shows_a_bar_and_no_lines(capfd: Any, caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with caplog.at_level(logging.INFO, logger="leeway"):
        assert list(progress.track_progress("abc", 3, "days")) == ["a", "b", "c"]
    assert not caplog.messages
    assert "days" in capfd.readouterr().err
