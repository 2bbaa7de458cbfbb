"""An empty Airflow database, migrated once for all workers of a run of the tests: that costs a processor 5 to 10 s."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from pipelines.system.locks import hold_lock


def put_database(shared: Path, home: Path) -> None:
    """Leaves a migrated database in an Airflow home.

    Args:
        shared: folder of all workers, where the one is kept that is copied.
        home: the Airflow home; airflow.db is where Airflow looks for it by itself.
    """
    made = shared / "airflow.db"
    with hold_lock(shared / "airflow.lock"):
        if not made.exists():
            _migrate(shared / "airflow", made)
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, home / "airflow.db")


def _migrate(home: Path, made: Path) -> None:
    env = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__UNIT_TEST_MODE": "False"}
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:]
    part = made.with_suffix(".part")
    # Not a copy of the file: what is in its write-ahead log would be missing.
    with closing(sqlite3.connect(home / "airflow.db")) as found, closing(sqlite3.connect(part)) as copy:
        found.backup(copy)
    part.rename(made)
