"""The folder tree of one host, which a SageMaker container has at /opt/ml."""

import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

CONTAINER_BASE = PurePosixPath("/opt/ml")


@dataclass(frozen=True)
class HostTree:
    """The paths of one host, named as SageMaker names them below /opt/ml.

    Attributes:
        root: The tree's folder: DATA/KIND/ACCOUNT/REGION/JOB/HOST. KIND is jobs (training), processing or transform.
            For an instance of an endpoint, it is DATA/endpoints/ACCOUNT/REGION/ENDPOINT/INSTANCE.
    """

    root: Path

    @property
    def host(self) -> str:
        """Name of the host: algo-1, algo-2, ...; for an instance of an endpoint, the name of its folder."""
        return self.root.name

    @property
    def config(self) -> Path:
        """Folder of a training job's JSON files: input/config."""
        return self.root / "input" / "config"

    @property
    def model(self) -> Path:
        """Folder of the model.

        Its content becomes the model.tar.gz of a training job. For a transform job or an endpoint, model.tar.gz is
        unpacked there.
        """
        return self.root / "model"

    @property
    def output(self) -> Path:
        """Folder where the script may write its own message: the file `failure`, or `message` for a processing job."""
        return self.root / "output"

    @property
    def output_data(self) -> Path:
        """Folder whose content becomes output.tar.gz; for a transform job, the folder of the responses."""
        return self.root / "output" / "data"

    @property
    def code(self) -> Path:
        """Folder of the program.

        For a training job, it has the unpacked source bundle, and is the working directory. For a transform job or an
        endpoint, it has drydock's own program.
        """
        return self.root / "code"

    @property
    def log(self) -> Path:
        """File with the host's stdout and stderr. It is beside the tree, since SageMaker's tree has no such file."""
        return self.root.with_name(f"{self.root.name}.log")

    @property
    def process_file(self) -> Path:
        """File that identifies the host's process or container; the executor deletes it after the end of the host."""
        return self.root.with_name(f"{self.root.name}.process.json")

    @property
    def exit_file(self) -> Path:
        """File with the command's exit code, for a server that did not see the command end; see `execution.exits`."""
        return self.root.with_name(f"{self.root.name}.exit.json")

    def get_channel_folder(self, name: str) -> Path:
        """Return the folder of one input channel."""
        return self.root / "input" / "data" / name

    def get_local_path(self, container_path: str) -> Path:
        """Return where a path below /opt/ml is on this machine."""
        return self.root / PurePosixPath(container_path).relative_to(CONTAINER_BASE)

    def create(self, folders: Iterable[Path]) -> None:
        """Create the tree with these folders only. The tree, log and exit code of an earlier run are deleted first.

        Raises:
            OSError: The disk is full or not writable. A retry can help.
        """
        shutil.rmtree(self.root, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        self.exit_file.unlink(missing_ok=True)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)

    def contains(self, folder: Path) -> bool:
        """Return whether a folder is really in the tree: the job may have replaced it with a link out of the tree."""
        return folder.resolve().is_relative_to(self.root.resolve())

    def recreate_folder(self, folder: Path) -> None:
        """Create a folder again if the job has deleted it. Idempotent.

        Raises:
            NotADirectoryError: The job has replaced it with something else. A retry cannot help.
        """
        if not self.contains(folder) or (folder.exists() and not folder.is_dir()):
            path = CONTAINER_BASE / folder.relative_to(self.root)
            raise NotADirectoryError(f"{path} is not a folder: the job has replaced it with something else")
        folder.mkdir(parents=True, exist_ok=True)

    def delete(self) -> None:
        """Delete the tree, its logs and its exit code, ignoring errors."""
        shutil.rmtree(self.root, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.exit_file.unlink(missing_ok=True)
            for log in self.root.parent.glob(f"{self.log.name}*"):  # also those of earlier runs
                log.unlink(missing_ok=True)

    def delete_input(self) -> None:
        """Delete the downloaded data, which S3 still has. The other files stay, for a person who inspects the job."""
        shutil.rmtree(self.root / "input" / "data", ignore_errors=True)
        shutil.rmtree(self.root / "processing" / "input", ignore_errors=True)


def list_host_names(count: int) -> list[str]:
    """Return the names of a job's hosts: algo-1 to algo-count."""
    return [f"algo-{number}" for number in range(1, count + 1)]


def is_below_container_base(path: str) -> bool:
    """Return whether a path is a folder below /opt/ml, and not /opt/ml itself."""
    folder = PurePosixPath(path)
    return folder.is_relative_to(CONTAINER_BASE) and ".." not in folder.parts and folder != CONTAINER_BASE
