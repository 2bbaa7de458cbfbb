"""Read single files of the lake from a backup, a tar file that `make backup` wrote."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pipelines.errors import SpecError
from pipelines.lake import storage
from pipelines.lake.check.findings import Finding
from pipelines.settings import settings

MANIFEST = "MANIFEST.json"
"""Name of the last file in a backup. It contains the path of LEEWAY_HOME, and the digest of each other file."""


class Backup:
    """The files of a backup. A file whose digest differs from the one in the backup's manifest is not used."""

    name = "the backup"
    """Name for log lines and reports."""

    def __init__(self, archive: tarfile.TarFile, home: Path, digests: Mapping[str, str]) -> None:
        self._archive, self._home, self._digests = archive, home, digests

    def write_files(self, finding: Finding, folder: Path) -> Sequence[Path]:
        """Copy the files of `finding.group`, one of which is lost, to `folder`; return the copies in the group's order.

        Without a group, copy only the lost file. Return no copies if the backup lacks one of the files, or its digest
        is wrong.
        """
        locations = finding.group or (finding.location,)
        paths = [self.extract(location, folder / str(index)) for index, location in enumerate(locations)]
        return [path for path in paths if path] if all(paths) else []

    def extract(self, location: str, path: Path) -> Path | None:
        """Copy a file from the backup to `path`. Return `path`; None if the backup lacks it, or its digest is wrong."""
        member = self._find_member(location)
        content = self._archive.extractfile(member) if member in self._digests else None
        if content is None:
            return None
        with path.open("wb") as target:
            shutil.copyfileobj(content, target, storage.CHUNK_BYTES)
        with path.open("rb") as copy:
            return path if hashlib.file_digest(copy, "sha256").hexdigest() == self._digests[member] else None

    def _find_member(self, location: str) -> str:
        """Return the name of a file of the lake in the backup; empty if the file is not below LEEWAY_HOME."""
        path = storage.get_local_path(location)
        return str(path.relative_to(self._home)) if path and path.is_relative_to(self._home) else ""


@contextmanager
def open_backup(path: Path) -> Iterator[Backup]:
    """Open a file that `make backup` wrote.

    Raises:
        SpecError: there is no such file, it is not a complete backup, or it is a backup of another LEEWAY_HOME. A retry
            cannot help.
    """
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(tarfile.open(path, "r:"))
            home, digests = _read_manifest(archive)
        except OSError as error:
            raise SpecError(f"{path} cannot be read: {error.strerror or error}.") from None
        except (tarfile.TarError, KeyError, ValueError, TypeError, AttributeError) as error:
            reason = "it has no manifest at its end" if isinstance(error, KeyError) else str(error)
            raise SpecError(f"{path} is not a complete backup: {reason}.", "`make backup` writes backups.") from None
        if home != settings().home:
            raise SpecError(f"{path} is a backup of {home}, not of {settings().home}.", "Give a backup of this folder.")
        yield Backup(archive, home, digests)


def _read_manifest(archive: tarfile.TarFile) -> tuple[Path, dict[str, str]]:
    """Return the LEEWAY_HOME that was backed up, and the digest of each file in the backup."""
    manifest = archive.extractfile(MANIFEST)
    values = json.load(manifest) if manifest else {}
    return Path(values["home"]), {name: str(entry["sha256"]) for name, entry in values["files"].items()}
