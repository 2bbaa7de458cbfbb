"""Run MLflow's server on a SQLite file, which is created completely before the server starts.

MLflow itself creates its tables one after the other. If it is killed in between, it can never start again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_MLFLOW = [sys.executable, "-m", "mlflow"]


def create_database(path: Path) -> None:
    """Create MLflow's database at `path`; after a kill at any time there is none, or a complete one. Idempotent.

    Raises:
        subprocess.CalledProcessError: MLflow could not create it; its output says why.
    """
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.draft")
    for file in path.parent.glob(f"{draft.name}*"):  # left by a start that was killed, with SQLite's journal
        file.unlink()
    subprocess.run([*_MLFLOW, "db", "upgrade", f"sqlite:///{draft}"], check=True)
    draft.replace(path)


def main() -> None:
    """Create the database that the first argument names; then become `mlflow server` with the other arguments."""
    database, *arguments = sys.argv[1:]
    try:
        create_database(Path(database))
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: MLflow cannot create {database} (exit code {error.returncode}).")
    command = [*_MLFLOW, "server", "--backend-store-uri", f"sqlite:///{database}", *arguments]
    os.execv(sys.executable, command)  # noqa: S606


if __name__ == "__main__":
    main()
