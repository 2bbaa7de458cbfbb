"""Stand in for GitDagBundle, whose provider is not installed: the versions are the commits of a local repository."""

import subprocess
from pathlib import Path

from airflow.dag_processing.bundles.base import BaseDagBundle


def run_git(folder: Path, *arguments: str) -> str:
    process = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return process.stdout.strip()


class RepositoryBundle(BaseDagBundle):
    """The DAGs of a repository at a version, or at its HEAD."""

    supports_versioning = True

    def __init__(self, *, repository: str, **kwargs) -> None:
        super().__init__(**kwargs)
        self.repository = repository

    def initialize(self) -> None:
        with self.lock():
            if not self._folder.exists():
                self._folder.parent.mkdir(parents=True, exist_ok=True)
                run_git(self._folder.parent, "clone", "-q", self.repository, str(self._folder))
            self._check_out(self.version or "origin/HEAD")
        super().initialize()

    def refresh(self) -> None:
        with self.lock():
            run_git(self._folder, "fetch", "-q")
            self._check_out("origin/HEAD")

    def get_current_version(self) -> str:
        return run_git(self._folder, "rev-parse", "HEAD")

    @property
    def path(self) -> Path:
        return self._folder / "dags"

    @property
    def _folder(self) -> Path:
        return self.versions_dir / self.version if self.version else self.base_dir / "tracking"

    def _check_out(self, commit: str) -> None:
        run_git(self._folder, "checkout", "-q", "--detach", commit)
