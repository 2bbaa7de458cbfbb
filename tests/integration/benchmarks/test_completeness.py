"""Test the benchmark of days that end early on a few days."""

import tempfile
from pathlib import Path

import pytest

from benchmarks import completeness


@pytest.mark.soak
@pytest.mark.usefixtures("home")
def test_real_days_are_counted_and_no_lake_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completeness, "DAYS", 3)
    monkeypatch.setenv("LEEWAY_HOME", "")  # the benchmark changes it
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = completeness.run()
    for name in ("flights", "weather"):
        assert result["facts"][f"{name}: real days refused"] == "0 of 3"
        assert result["facts"][f"{name}: days cut at 25% of their rows refused"] == "1 of 1"
        assert len(result["seconds"][f"{name}: a judgement"]) == 7
    assert list(tmp_path.iterdir()) == []
