"""Migrate an empty Airflow database once for all workers of a test run: it takes 5 to 10 s of CPU time."""

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from pipelines.system.locks import hold_lock
from tests.tools import forking


def copy_migrated_database(shared: Path, home: Path) -> None:
    """Copy the migrated database into an Airflow home; if no worker has migrated it yet, migrate it first.

    Args:
        shared: the folder that all workers share, with the database that is copied.
        home: the Airflow home. The copy is its airflow.db, where Airflow looks by default.
    """
    database = shared / "airflow.db"
    with hold_lock(shared / "airflow.lock"):
        if not database.exists():
            _migrate(shared / "airflow", database)
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(database, home / "airflow.db")


def _migrate(home: Path, database: Path) -> None:
    env = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__UNIT_TEST_MODE": "False"}
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    result = forking.run(command, env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2_000:]
    partial_file = database.with_suffix(".part")
    # A copy of the file would lack what is in its write-ahead log.
    with closing(sqlite3.connect(home / "airflow.db")) as migrated, closing(sqlite3.connect(partial_file)) as copy:
        migrated.backup(copy)
    partial_file.rename(database)
