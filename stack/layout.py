"""Find the folders of a stack: the folder of its state (the home), and the folder of the project that it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from stack.errors import RequestError, UnavailableError

CODE_FOLDER = Path(__file__).resolve().parent.parent
"""The folder that holds this package, and drydock beside it: a checkout, or site-packages of an environment."""
IS_CHECKOUT = (CODE_FOLDER / "pyproject.toml").is_file()
"""Whether the code is in a checkout, and not in an installed Leeway."""
PROGRAM = "make" if IS_CHECKOUT else "leeway"
"""The program that messages name, as in `make up` or `leeway up`."""
EXAMPLE_FILE = "dags/flights.py"
"""A project that has this file is Leeway's example."""
MIN_FREE_BYTES = 1 << 30
"""Smallest free disk space with which the stack starts. With less, writes of SQLite and of the logs soon fail."""


@dataclass(frozen=True)
class Layout:
    """The folders of one stack. Two stacks with different homes share nothing.

    Attributes:
        home: absolute path of the folder of all state.
        project: absolute path of the folder with dags/, plugins/, params.yaml and dvc.yaml.
    """

    home: Path
    project: Path

    @classmethod
    def from_environment(cls) -> Self:
        """Return the layout that LEEWAY_PROJECT and LEEWAY_HOME name.

        The default project is the checkout that the code is in; for an installed Leeway, it is the working directory.
        The default home is .leeway in the project.
        """
        default_project = CODE_FOLDER if IS_CHECKOUT else Path.cwd()
        project = Path(os.environ.get("LEEWAY_PROJECT") or default_project).expanduser().resolve()
        home = Path(os.environ.get("LEEWAY_HOME") or project / ".leeway").expanduser().resolve()
        return cls(home=home, project=project)

    @property
    def record_file(self) -> Path:
        """The record of the running processes."""
        return self.home / "stack.json"

    @property
    def keep_running_file(self) -> Path:
        """A file that exists while the user wants the stack to stay up: `up` and `--keep` create it."""
        return self.home / "stack.keep"

    @property
    def airflow(self) -> Path:
        """The folder of Airflow's database, settings and logs (AIRFLOW_HOME)."""
        return self.home / "airflow"

    @property
    def mlflow(self) -> Path:
        """The folder of MLflow's database and artifacts."""
        return self.home / "mlflow"

    @property
    def drydock(self) -> Path:
        """The folder of all that drydock stores, such as S3 objects and jobs."""
        return self.home / "drydock"

    @property
    def docs(self) -> Path:
        """The folder of the data docs that `pipelines` writes."""
        return self.home / "docs"

    @property
    def watched_file(self) -> Path:
        """The file that the service `status` touches each time it has checked the lake."""
        return self.home / "status/watched"

    def report_file(self, job: str) -> Path:
        """Return the file in which `demo` or `replay` reports its last run, with the seconds of each phase."""
        return self.home / f"{job}.json"

    def lock_file(self, name: str) -> Path:
        """Return the lock file of that name."""
        return self.home / f"{name}.lock"

    def log_file(self, service: str) -> Path:
        """Return the log file of a service."""
        return self.home / "logs" / f"{service}.log"

    def require_example(self) -> None:
        """Check that the project is Leeway's example, which an installed Leeway does not contain.

        If the code is in a checkout, nothing is checked, whatever LEEWAY_PROJECT names.

        Raises:
            RequestError: the project of an installed Leeway does not have the example. A retry cannot help.
        """
        if not IS_CHECKOUT and not (self.project / EXAMPLE_FILE).is_file():
            raise RequestError(
                f"{self.project} has no {EXAMPLE_FILE}: only Leeway's example has a demo and a replay. Run them in a "
                "checkout of Leeway."
            )

    def require_model(self, name: str) -> None:
        """Check that the project has a model of this name. In a project without models/, every name is allowed.

        Raises:
            RequestError: the project has other models only. A retry cannot help.
        """
        names = sorted(path.parent.name for path in self.project.glob("models/*/params.yaml"))
        if names and name not in names:
            raise RequestError(f"there is no model {name!r}. The models are {', '.join(names)}.")

    def create_folders(self) -> None:
        """Create the folders, and let only the owner read the home, even if it exists already. Idempotent.

        Raises:
            RequestError: the project has no dags folder. A retry cannot help.
            UnavailableError: the disk has too little free space, or cannot be written. A retry can help.
        """
        if not (self.project / "dags").is_dir():
            raise RequestError(f"{self.project} has no folder dags/; set LEEWAY_PROJECT to the folder of your project.")
        try:
            for folder in (self.home / "logs", self.airflow, self.mlflow, self.drydock, self.docs):
                folder.mkdir(parents=True, exist_ok=True)
            # Data, models, keys and the code of jobs: other users of the machine can neither read nor change them.
            self.home.chmod(0o700)
            self.airflow.chmod(0o700)
            disk = os.statvfs(self.home)
        except OSError as error:
            raise UnavailableError(
                f"Cannot write to {self.home}: {error.strerror}. Set LEEWAY_HOME to a folder that you can write to."
            ) from None
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes < MIN_FREE_BYTES:
            raise UnavailableError(
                f"Only {free_bytes >> 20} MiB are free at {self.home}, and the stack needs {MIN_FREE_BYTES >> 20}: "
                "free some space, or set LEEWAY_HOME to a folder on another disk."
            )
