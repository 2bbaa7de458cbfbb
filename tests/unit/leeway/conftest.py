"""Stand-ins for the interpreter of `python=`, and a log that remembers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HEAD = """#!{python}
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

def until(what):
    ends = time.monotonic() + 30
    while not what():
        if time.monotonic() > ends:
            sys.exit(99)
        time.sleep(0.01)

"""


class Lines:
    """A log that remembers its lines, and tells each to `heard`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.heard: Callable[[str], Any] = lambda _: None

    def info(self, event: Any, *args: Any, **kw: Any) -> None:
        self.lines.append(str(event) % args if args else str(event))
        self.heard(self.lines[-1])

    warning = info


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def stub(tmp_path: Path) -> Callable[[str], str]:
    """Makes an executable that takes the place of Python; its body has spec(), result(), report() and until()."""

    def make(body: str) -> str:
        path = tmp_path / f"python-{len(list(tmp_path.glob('python-*')))}"
        path.write_text(HEAD.format(python=sys.executable) + body)
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """LEEWAY_PROJECT, empty: steps run there."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("LEEWAY_PROJECT", str(folder))
    return folder
