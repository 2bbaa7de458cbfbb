"""The checkpoint folder and its place in S3, kept the same while the job runs."""

import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from drydock.transfer.objects import ObjectStore, join_uri, split_uri
from drydock.transfer.placement import faults
from drydock.transfer.stable_read import open_file, snapshot
from drydock.transfer.walk import Kind, walk

log = logging.getLogger(__name__)

KEY_MAX_BYTES = 1024
# What SageMaker puts next to a file for itself while it copies it, and does not copy.
MARKS = (".sagemaker-uploading", ".sagemaker-uploaded")

Signature = tuple[int, int, int, int]
Opener = Callable[[Path], BinaryIO | None]


@dataclass(frozen=True)
class _Copied:
    """What S3 has of a file: its signature here before the copy, its ETag there after it."""

    signature: Signature
    etag: str | None


class CheckpointSync:
    """Mirrors a folder to S3: what is new or changed is copied, what the job deletes is deleted there.

    Several hosts may share the place in S3: one deletes only what it has copied or downloaded itself and what nobody
    has written over since. A file that cannot be read or named there is passed over with a warning.

    Args:
        folder: The job's checkpoint folder.
        uri: CheckpointConfig.S3Uri.
        store: S3.
        interval_s: Seconds between two copies while the job runs.
    """

    def __init__(self, folder: Path, uri: str, store: ObjectStore, interval_s: float) -> None:
        # The slash makes it a folder: the prefix run-1 must not take run-10's checkpoints.
        self._folder, self._uri, self._store = folder, uri.rstrip("/") + "/", store
        self._interval_s = interval_s
        self._due = 0.0
        self._known: dict[str, _Copied] = {}
        self._warned: set[str] = set()

    def download(self) -> int:
        """The folder holds what S3 has; returns the number of files. Only done before the job starts.

        An object whose key cannot be a file's name stays where it is, with a warning.

        Raises:
            ClientError: NoSuchBucket, or S3 failed.
            ValueError: An object vanished meanwhile.
            OSError: The disk is full or not writable.
        """
        bucket, prefix = split_uri(self._uri)
        etags = {key[len(prefix) :]: etag for key, etag in self._store.etags(self._uri).items()}
        for name, reason in faults(etags).items():
            self._warn(name, reason)
            del etags[name]
        self._store.download_all({f"s3://{bucket}/{prefix}{name}": self._folder / name for name in etags})
        present, _ = self._scan()
        # As the file is named here: a key with two slashes in a row is a path with one.
        here = {Path(name).as_posix(): etag for name, etag in etags.items()}
        self._known = {name: _Copied(signature, here[name]) for name, (_, signature) in present.items() if name in here}
        self._due = time.monotonic() + self._interval_s
        return len(self._known)

    def copy_if_due(self) -> None:
        """As `copy`, once in every interval. Does not wait for an S3 that has no answer: the next copy will do.

        Raises:
            ClientError: S3 failed; the next call takes up what is missing.
        """
        if time.monotonic() >= self._due:
            try:
                self._copy(self._store.hasty(), self._snapshot)
            finally:
                self._due = time.monotonic() + self._interval_s

    def copy(self, final: bool = False) -> None:
        """S3 holds what the folder held during this call. Idempotent; unchanged files are not copied again.

        Args:
            final: Nobody writes any more. The files are sent as they are, which needs no room on a full disk.

        Raises:
            ClientError: S3 failed; the next call takes up what is missing.
        """
        self._copy(self._store, open_file if final else self._snapshot)

    def _copy(self, store: ObjectStore, opener: Opener) -> None:
        present, complete = self._scan()
        for name, (path, signature) in present.items():
            if name not in self._known or self._known[name].signature != signature:
                # The signature from before the copy: a file that changes during it is copied again next time.
                self._upload(store, name, self._opened(name, path, opener), signature)
        # A folder that cannot be looked into has not been emptied.
        for name in self._known.keys() - present.keys() if complete else ():
            self._delete(store, name)

    def _snapshot(self, path: Path) -> BinaryIO | None:
        return snapshot(path, beside=self._folder.parent)

    def _opened(self, name: str, path: Path, opener: Opener) -> BinaryIO | None:
        try:
            return opener(path)  # None where it changes all the time: the next copy will find it quiet
        except FileNotFoundError:  # renamed or deleted by the job since the scan
            return None
        except OSError as error:
            self._warn(name, f"cannot be read: {error.strerror}")
            return None

    def _upload(self, store: ObjectStore, name: str, stream: BinaryIO | None, signature: Signature) -> None:
        if stream is not None:
            with stream:
                uri = join_uri(self._uri, name)
                store.write(stream, uri)
                self._known[name] = _Copied(signature, store.etag(uri))

    def _delete(self, store: ObjectStore, name: str) -> None:
        uri = join_uri(self._uri, name)
        if store.etag(uri) == self._known[name].etag:
            store.delete(uri)
        del self._known[name]

    def _scan(self) -> tuple[dict[str, tuple[Path, Signature]], bool]:
        """Return the files, the oldest first (what refers to others comes after them), and whether that is all."""
        found: dict[str, tuple[Path, Signature]] = {}
        errors: list[OSError] = []
        for entry in walk(self._folder, errors.append):
            if entry.kind is Kind.FILE and not entry.name.endswith(MARKS) and self._can_be_a_key(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    info = entry.path.lstat()
                    found[entry.name] = entry.path, (info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)
        for error in errors:
            self._warn(str(error.filename), f"cannot be read: {error.strerror}")
        return dict(sorted(found.items(), key=lambda item: (item[1][1], item[0]))), not errors

    def _can_be_a_key(self, name: str) -> bool:
        key = os.fsencode(split_uri(self._uri)[1] + name)
        if _is_utf8(key) and len(key) <= KEY_MAX_BYTES:
            return True
        self._warn(name, f"cannot be a key in S3: no UTF-8, or more than {KEY_MAX_BYTES} bytes")
        return False

    def _warn(self, name: str, reason: str) -> None:
        if name not in self._warned:  # once: the folder is looked at every few seconds
            self._warned.add(name)
            log.warning("checkpoint %.200r of %s is passed over: it %s", name, self._uri, reason)


def _is_utf8(name: bytes) -> bool:
    with contextlib.suppress(UnicodeDecodeError):
        return bool(name.decode())
    return False
