"""A host's folder tree: what is /opt/ml in a SageMaker container."""

import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

CONTAINER_BASE = PurePosixPath("/opt/ml")


@dataclass(frozen=True)
class HostTree:
    """The paths of one host below root, named as SageMaker names them below /opt/ml.

    Attributes:
        root: DATA/jobs/ACCOUNT/REGION/JOB/HOST.
    """

    root: Path

    @property
    def host(self) -> str:
        """algo-1, algo-2, ..."""
        return self.root.name

    @property
    def config(self) -> Path:
        """input/config: the JSON files of a training job."""
        return self.root / "input" / "config"

    @property
    def model(self) -> Path:
        """What the script leaves here becomes model.tar.gz."""
        return self.root / "model"

    @property
    def output(self) -> Path:
        """output/failure is the script's word on why it failed."""
        return self.root / "output"

    @property
    def output_data(self) -> Path:
        """What the script leaves here becomes output.tar.gz."""
        return self.root / "output" / "data"

    @property
    def code(self) -> Path:
        """The unpacked source bundle; the job's working directory."""
        return self.root / "code"

    @property
    def log(self) -> Path:
        """Stdout and stderr of the host, merged. Beside the tree, since SageMaker's has no such file."""
        return self.root.with_name(f"{self.root.name}.log")

    @property
    def note(self) -> Path:
        """What runs the host, while it runs."""
        return self.root.with_name(f"{self.root.name}.process.json")

    def channel(self, name: str) -> Path:
        """The files of one input channel."""
        return self.root / "input" / "data" / name

    def at(self, container_path: str) -> Path:
        """The folder that a job sees at container_path, which is below /opt/ml."""
        return self.root / PurePosixPath(container_path).relative_to(CONTAINER_BASE)

    def create(self, folders: Iterable[Path]) -> None:
        """The tree is there, with these folders and nothing else; a tree of an earlier run is gone, with its log.

        Raises:
            OSError: The disk is full or not writable.
        """
        shutil.rmtree(self.root, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)

    def holds(self, folder: Path) -> bool:
        """Return whether folder is in the tree: a job may have put a link out of it in its place."""
        return folder.resolve().is_relative_to(self.root.resolve())

    def restore(self, folder: Path) -> None:
        """The folder is there again: one that the job has deleted is an empty one.

        Raises:
            NotADirectoryError: The job has put something else in its place.
        """
        if not self.holds(folder) or (folder.exists() and not folder.is_dir()):
            where = CONTAINER_BASE / folder.relative_to(self.root)
            raise NotADirectoryError(f"{where} is no folder any more: the job has put something else in its place")
        folder.mkdir(parents=True, exist_ok=True)

    def drop(self) -> None:
        """The tree and its log are gone, as far as they can be."""
        shutil.rmtree(self.root, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.log.unlink(missing_ok=True)

    def drop_input(self) -> None:
        """The downloaded data is gone (S3 has it); the rest stays for whoever looks into the job."""
        shutil.rmtree(self.root / "input" / "data", ignore_errors=True)
        shutil.rmtree(self.root / "processing" / "input", ignore_errors=True)


def host_names(count: int) -> list[str]:
    """Return algo-1 to algo-count."""
    return [f"algo-{number}" for number in range(1, count + 1)]


def inside_container_base(path: str) -> bool:
    """Return whether path is a folder below /opt/ml, and not that itself."""
    pure = PurePosixPath(path)
    return pure.is_relative_to(CONTAINER_BASE) and ".." not in pure.parts and pure != CONTAINER_BASE
