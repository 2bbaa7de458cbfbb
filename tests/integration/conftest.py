"""A dataset that only changes: orders in a SQLite database, as a package beside the product's own."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools.airflow_db import put_database

PACKAGE = """
from pipelines.dataset import Dataset

DATASET = Dataset(name="orders", key=("date", "number"))
"""
SOURCE = """
from pipelines.ingestion.sources import SqlChanges


def open_source(folder=None):
    return SqlChanges(url=f"sqlite:///{folder}/orders.db", table="orders", cursor="changed", order_by=("number",))
"""
BEGIN = """
import os, signal, sys
import pipelines.datasets
pipelines.datasets.__path__.append({folder!r})
{more}
from pipelines.cli.app import main
main()
"""


@dataclass
class Orders:
    """The dataset's package, its database, and the step over it as a process."""

    folder: Path
    commands: Any = None

    def make(self) -> Orders:
        """Five orders of three days, last changed at 5."""
        package = self.folder / "orders"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(PACKAGE)
        (package / "source.py").write_text(SOURCE)
        self.do("CREATE TABLE orders (date DATE, number INTEGER PRIMARY KEY, state TEXT, changed INTEGER)")
        for changed, (day, number) in enumerate([(1, 1), (1, 2), (2, 3), (3, 4), (2, 5)], start=1):
            self.put(f"2026-01-0{day}", number, "new", changed)
        return self

    def do(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.folder / "orders.db")) as connection, connection:
            for one in statements:
                connection.execute(one)

    def put(self, date: str | None, number: int, state: str, changed: int) -> None:
        day = f"'{date}'" if date else "NULL"
        self.do(f"REPLACE INTO orders (date, number, state, changed) VALUES ({day}, {number}, '{state}', {changed})")

    def sync(self, *arguments: str, more: str = "") -> SimpleNamespace:
        """The step in a process of its own; `more` is done there first."""
        code = BEGIN.format(folder=str(self.folder), more=more)
        given = ("sync", "--dataset", "orders", "--folder", str(self.folder), *arguments)
        done: SimpleNamespace = self.commands.run(sys.executable, "-c", code, *given)
        return done


@pytest.fixture(scope="session")
def make_orders() -> Callable[[Path], Orders]:
    """Makes the dataset in a folder."""
    return lambda folder: Orders(folder).make()


@pytest.fixture
def orders(tmp_path: Path, commands: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orders]:
    """The dataset, known to the steps of this process."""
    from pipelines import datasets

    made = Orders(tmp_path / "packages", commands).make()
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(made.folder)])
    yield made
    for name in [name for name in sys.modules if name.startswith("pipelines.datasets.orders")]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def migrated(run_folder: Path) -> Callable[[Path], None]:
    """Leaves a migrated database in an Airflow home."""
    return partial(put_database, run_folder)
