"""Test the preparation of MLflow's client."""

import importlib
import sys
from pathlib import Path

import pytest

from pipelines.system.mlflow_server import prepare_client


class Finder:
    """A finder of modules that records what Python searches for, and finds nothing."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, *_: object) -> None:
        self.names.append(name)


@pytest.mark.parametrize("name", ["dbruntime.databricks_repl_context", "IPython"])
def test_no_request_searches_for_databricks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finder, package = Finder(), name.partition(".")[0]
    monkeypatch.setattr(sys, "meta_path", [finder])
    for module in ("dbruntime", "IPython"):
        monkeypatch.setitem(sys.modules, module, None)  # restored after the test
        del sys.modules[module]

    def import_databricks() -> list[str]:
        finder.names.clear()
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
        return list(finder.names)

    assert import_databricks() == import_databricks() == [package], "Python searches again each time"
    prepare_client()
    assert import_databricks() == []
    prepare_client()
    assert import_databricks() == []


def test_databricks_is_found_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (package := tmp_path / "dbruntime").mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "dbruntime", None)  # restored after the test
    del sys.modules["dbruntime"]
    prepare_client()
    assert importlib.import_module("dbruntime").__file__
