"""Provide fake interpreters for the argument `python` of operators, and a log that records its lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PREAMBLE = """#!{python}
import json, os, signal, subprocess, sys, time
from pathlib import Path

def value(option):
    return sys.argv[sys.argv.index(option) + 1]

def spec():
    return json.loads(sys.stdin.read() if value("--spec") == "-" else Path(value("--spec")).read_text())

def result(**fields):
    Path(value("--out")).write_text(json.dumps({{"schema_version": 1, **fields}}))

def report(code, message, hint=""):
    result(error="SomeError", message=message, hint=hint, exit_code=code)
    sys.exit(code)

def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(99)
        time.sleep(0.01)

"""


class RecordedLog:
    """A log that records its lines with their levels, and calls `on_line` with each."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.levels: list[str] = []
        self.on_line: Callable[[str], Any] = lambda _: None

    def info(self, event: Any, *args: Any, **kw: Any) -> None:
        self._add("info", event, args)

    def warning(self, event: Any, *args: Any, **kw: Any) -> None:
        self._add("warning", event, args)

    def error(self, event: Any, *args: Any, **kw: Any) -> None:
        self._add("error", event, args)

    def _add(self, level: str, event: Any, args: tuple[Any, ...]) -> None:
        self.lines.append(str(event) % args if args else str(event))
        self.levels.append(level)
        self.on_line(self.lines[-1])


@pytest.fixture
def log() -> RecordedLog:
    """Return a log that records its lines."""
    return RecordedLog()


@pytest.fixture
def write_python(tmp_path: Path) -> Callable[[str], str]:
    """Return the function that writes an executable to use in place of Python.

    It runs a body, which can call spec(), result(), report() and until().
    """

    def write(body: str) -> str:
        path = tmp_path / f"python-{len(list(tmp_path.glob('python-*')))}"
        path.write_text(PREAMBLE.format(python=sys.executable) + body)
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set LEEWAY_PROJECT to an empty folder, in which steps run, and return it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("LEEWAY_PROJECT", str(folder))
    return folder
