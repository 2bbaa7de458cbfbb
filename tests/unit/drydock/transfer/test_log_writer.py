"""Test how the lines of a file are sent to the log."""

from pathlib import Path
from typing import Any, cast

import pytest

from drydock.transfer.log_writer import EVENT_MAX_CHARS, LogStream, LogTail


class Recorder:
    """Record the lines in place of a log stream."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, lines: list[str]) -> None:
        self.lines += lines


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def build_tail(path: Path, recorder: Recorder, seen: list[str] | None = None) -> LogTail:
    return LogTail(path, cast(LogStream, recorder), (seen if seen is not None else []).append)


def test_sends_complete_lines_only_until_the_end(tmp_path: Path, recorder: Recorder) -> None:
    path, seen = tmp_path / "log", list[str]()
    tail = build_tail(path, recorder, seen)
    tail.send_new_lines()
    for data, expected in ((b"one\ntw", ["one"]), (b"o\r\n\nthr", ["one", "two", ""])):
        with path.open("ab") as file:
            file.write(data)
        tail.send_new_lines()
        assert recorder.lines == expected
    tail.send_new_lines(is_final=True)
    assert recorder.lines == seen == list(tail.last_lines) == ["one", "two", "", "thr"]


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_splits_a_very_long_line(tmp_path: Path, recorder: Recorder, ending: bytes) -> None:
    (tmp_path / "log").write_bytes(b"x" * (2 * EVENT_MAX_CHARS + 5) + ending)
    build_tail(tmp_path / "log", recorder).send_new_lines(is_final=True)
    assert [len(line) for line in recorder.lines] == [EVENT_MAX_CHARS, EVENT_MAX_CHARS, 5]


def test_shows_bytes_that_are_not_utf_8(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "log").write_bytes(b"caf\xe9 \xc3\xa9\n")
    build_tail(tmp_path / "log", recorder).send_new_lines()
    assert recorder.lines == ["caf\ufffd \u00e9"]


def test_one_call_reads_a_limited_amount(tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drydock.transfer.log_writer.READ_BYTES", 2)
    (tmp_path / "log").write_bytes(b"x\n" * 100)
    tail: Any = build_tail(tmp_path / "log", recorder)
    tail.send_new_lines()
    assert 0 < len(recorder.lines) < 100
    tail.send_new_lines(is_final=True)
    assert len(recorder.lines) == 100
