"""Test the commands for the lake where there is none yet, and with options that have no effect."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli.lake import app
from pipelines.errors import SpecError


def check(*options: str) -> str:
    """Run the command and return its stdout."""
    return CliRunner().invoke(app, ["check", *options], catch_exceptions=False).stdout


def test_a_home_that_a_check_creates_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    home, umask = tmp_path / "home", os.umask(0)
    monkeypatch.setenv("LEEWAY_HOME", str(home))
    fresh_settings()
    try:
        assert "0 lost or damaged, 0 restored" in check()
    finally:
        os.umask(umask)
    assert (home / "lake_check.json").is_file()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_backup_without_a_repair_is_refused(home: Path) -> None:
    with pytest.raises(SpecError, match="backup has no effect without repair"):
        check("--backup", "backup.tar")
