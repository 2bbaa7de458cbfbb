"""Provide the dataset `orders`, whose source has no partitions, and an empty Airflow database.

The orders are in a SQLite database, and their package is outside `pipelines/datasets`.
"""

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

from tests.tools import forking
from tests.tools.airflow_db import copy_migrated_database

PACKAGE_CODE = """
from pipelines.dataset import Dataset

DATASET = Dataset(name="orders", key=("date", "number"))
"""
SOURCE_CODE = """
from pipelines.ingestion.sources import SqlChanges


def open_source(folder=None):
    return SqlChanges(url=f"sqlite:///{folder}/orders.db", table="orders", cursor="changed", order_by=("number",))
"""
SYNC_SCRIPT = """
import os, signal, sys
{preamble}
from pipelines.cli.app import main
main()
"""


@dataclass
class Orders:
    """The package of the dataset, its database, and its step `sync` as a process."""

    folder: Path
    commands: Any = None

    def create(self) -> Orders:
        """Create the package and the database. It has five orders of three days; the largest cursor is 5."""
        package = self.folder / "orders"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(PACKAGE_CODE)
        (package / "source.py").write_text(SOURCE_CODE)
        self.execute("CREATE TABLE orders (date DATE, number INTEGER PRIMARY KEY, state TEXT, changed INTEGER)")
        for changed, (day, number) in enumerate([(1, 1), (1, 2), (2, 3), (3, 4), (2, 5)], start=1):
            self.put_order(f"2026-01-0{day}", number, "new", changed)
        return self

    def execute(self, *statements: str) -> None:
        """Execute SQL statements on the database and commit them."""
        with closing(sqlite3.connect(self.folder / "orders.db")) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def put_order(self, date: str | None, number: int, state: str, changed: int) -> None:
        """Write one order, replacing the order with the same number."""
        day = f"'{date}'" if date else "NULL"
        self.execute(
            f"REPLACE INTO orders (date, number, state, changed) VALUES ({day}, {number}, '{state}', {changed})"
        )

    def sync(self, *arguments: str, preamble: str = "") -> SimpleNamespace:
        """Run the step `sync` in a process. The process executes the Python code `preamble` first."""
        command_line = ("sync", "--dataset", "orders", "--folder", str(self.folder), *arguments)
        code, variables = SYNC_SCRIPT.format(preamble=preamble), {"LEEWAY_DATASETS": str(self.folder)}
        result: SimpleNamespace = self.commands.run(sys.executable, "-c", code, *command_line, env=variables)
        return result


@pytest.fixture(scope="session")
def make_orders() -> Callable[[Path], Orders]:
    """Return the function that creates the dataset in a folder."""
    return lambda folder: Orders(folder).create()


@pytest.fixture
def orders(tmp_path: Path, commands: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orders]:
    """Create the dataset `orders`, so that the steps of this process find it by its name."""
    from pipelines import datasets

    dataset = Orders(tmp_path / "packages", commands).create()
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(dataset.folder)])
    yield dataset
    for name in [name for name in sys.modules if name.startswith("pipelines.datasets.orders")]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def put_airflow_database(run_folder: Path) -> Callable[[Path], None]:
    """Return the function that puts a migrated database into an Airflow home."""
    return partial(copy_migrated_database, run_folder)


class SysWithStandIn:
    """The module `sys`, whose `executable` is the stand-in of the forking server."""

    def __getattr__(self, name: str) -> Any:
        return forking.ensure_stand_in() if name == "executable" else getattr(sys, name)


@pytest.fixture(scope="session", autouse=True)
def fork_processes_of_steps() -> Iterator[None]:
    """Fork the Python processes that a step of this process starts: a new process takes ten times as long."""
    from pipelines.container import local_job
    from pipelines.registry.package import clean_load
    from pipelines.versioning import dvc_calls

    with pytest.MonkeyPatch.context() as patch:
        for module in (local_job, dvc_calls, clean_load):
            patch.setattr(module, "sys", SysWithStandIn())
        yield
