"""Test that MLflow's database is created from the start where an earlier start was killed while it created it."""

import sys
from pathlib import Path

import pytest

from stack.services import mlflow_server

CREATE_DRAFT = """
import pathlib, sys
draft = pathlib.Path(sys.argv[3].removeprefix("sqlite:///"))
assert not draft.exists() and not pathlib.Path(f"{draft}-journal").exists()
draft.write_text("whole")
"""


def test_draft_of_a_killed_start_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/integration/stack/services/test_mlflow_server.py kills a real MLflow; `make soak` runs it."""
    monkeypatch.setattr(mlflow_server, "_MLFLOW", [sys.executable, "-c", CREATE_DRAFT])
    (tmp_path / "mlflow.db.draft").write_text("half")
    (tmp_path / "mlflow.db.draft-journal").touch()
    mlflow_server.create_database(tmp_path / "mlflow.db")
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]
    assert (tmp_path / "mlflow.db").read_text() == "whole"


def test_whole_database_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(mlflow_server, "_MLFLOW", [sys.executable, "-c", "raise SystemExit(1)"])
    (tmp_path / "mlflow.db").write_text("whole")
    mlflow_server.create_database(tmp_path / "mlflow.db")
    assert (tmp_path / "mlflow.db").read_text() == "whole"
