"""Tests replace only names that the modules have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.patched_names import find_unknown_names

ROOT = Path(__file__).parents[3]
ROOTS = (ROOT, ROOT / "plugins")


def test_each_replaced_name_exists() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert [text for file in files for text in find_unknown_names(file, ROOTS)] == []


@pytest.mark.parametrize(
    "line",
    [
        "import package.clock as module",
        "from package import clock as module",
        "from package import clock as module, other",
    ],
)
def test_a_name_that_is_gone_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package/clock.py").write_text(
        "import time\nif time:\n    LIMIT_S = 1\ndef get_now():\n    local = 1\n"
    )
    (tmp_path / "test_clock.py").write_text(
        f"{line}\n"
        "def test(monkeypatch):\n"
        + "".join(
            f"    monkeypatch.setattr(module, '{name}', 2)\n"
            for name in ("time", "LIMIT_S", "get_now", "gone", "local")
        )
        + "    monkeypatch.setattr(module, 'new', 2, raising=False)\n"
        "    monkeypatch.setattr(other, 'unknown', 2)\n"
    )
    texts = find_unknown_names(tmp_path / "test_clock.py", (tmp_path,))
    assert [text.rpartition(":")[2] for text in texts] == [" clock has no gone", " clock has no local"]
