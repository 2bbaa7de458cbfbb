"""Where the stack keeps its state, and which project it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from stack.errors import RequestError, UnavailableError

CODE = Path(__file__).resolve().parent.parent
"""Folder that holds this package, and drydock beside it."""
MIN_FREE_BYTES = 1 << 30
"""Least free disk to start with: below this SQLite and the logs soon fail half-way."""


@dataclass(frozen=True)
class Layout:
    """The folders of one stack. Two stacks with different homes never meet.

    Attributes:
        home: absolute folder of all state.
        project: absolute folder of dags/, plugins/, params.yaml and dvc.yaml.
    """

    home: Path
    project: Path

    @classmethod
    def from_environment(cls) -> Self:
        """The layout that LEEWAY_PROJECT and LEEWAY_HOME name; by default this checkout and its .leeway."""
        project = Path(os.environ.get("LEEWAY_PROJECT") or CODE).expanduser().resolve()
        home = Path(os.environ.get("LEEWAY_HOME") or project / ".leeway").expanduser().resolve()
        return cls(home=home, project=project)

    @property
    def state(self) -> Path:
        """The record of what runs."""
        return self.home / "stack.json"

    @property
    def keep(self) -> Path:
        """Present while a person asked (`up`) for the stack to stay up."""
        return self.home / "stack.keep"

    def report(self, job: str) -> Path:
        """What the last `demo` or `replay` did, and how long each phase took."""
        return self.home / f"{job}.json"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.home / "airflow"

    @property
    def mlflow(self) -> Path:
        """Database and artifacts of MLflow."""
        return self.home / "mlflow"

    @property
    def drydock(self) -> Path:
        """Job folders of drydock."""
        return self.home / "drydock"

    @property
    def docs(self) -> Path:
        """The data docs, as `pipelines` writes them."""
        return self.home / "docs"

    def lock(self, name: str) -> Path:
        """The lock file of that name."""
        return self.home / f"{name}.lock"

    def log(self, service: str) -> Path:
        """The log of a service."""
        return self.home / "logs" / f"{service}.log"

    def prepare(self) -> None:
        """Makes the folders.

        Raises:
            RequestError: the project has no dags folder.
            UnavailableError: the disk has too little free space, or refuses.
        """
        if not (self.project / "dags").is_dir():
            raise RequestError(f"{self.project} has no folder dags/; set LEEWAY_PROJECT to the checkout.")
        try:
            for folder in (self.home / "logs", self.airflow, self.mlflow, self.drydock, self.docs):
                folder.mkdir(parents=True, exist_ok=True)
            self.airflow.chmod(0o700)  # keys, password and a database with connections
            disk = os.statvfs(self.home)
        except OSError as error:
            raise UnavailableError(f"Cannot write to {self.home}: {error.strerror}.") from None
        free = disk.f_bavail * disk.f_frsize
        if free < MIN_FREE_BYTES:
            raise UnavailableError(
                f"Only {free >> 20} MiB are free at {self.home}, and the stack needs {MIN_FREE_BYTES >> 20}: "
                "free some space, or set LEEWAY_HOME to a folder on another disk."
            )
