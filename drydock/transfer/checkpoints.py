"""Mirror a folder of a job to S3 while the job runs: its checkpoints, or an output that is uploaded continuously."""

import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from drydock.transfer.file_names import find_invalid_names
from drydock.transfer.objects import ObjectStore, join_uri, split_uri
from drydock.transfer.stable_read import copy_stable, open_regular_file
from drydock.transfer.walk import EntryKind, walk_folder

log = logging.getLogger(__name__)

# S3's limit for a key.
KEY_MAX_BYTES = 1024
# A file that a process has open for writing, such as a log, is copied only if it has not changed for this many seconds.
# The same holds for a file that is shorter than its copy in S3. A file of both kinds is not copied.
QUIET_S = 5.0
# SageMaker puts marker files with these endings next to a file while it copies the file. It does not copy them.
MARKER_ENDINGS = (".sagemaker-uploading", ".sagemaker-uploaded")


class Signature(NamedTuple):
    """The times, size and inode of a file. They differ after the file has changed. The oldest file sorts first."""

    modified_ns: int
    changed_ns: int
    size_bytes: int
    inode: int


# Opens a file, given its name, path and signature; None if the file is being written.
Opener = Callable[[str, Path, Signature], BinaryIO | None]


@dataclass(frozen=True)
class _Upload:
    """The last upload of a file: the file's signature before the upload, and the object's size and ETag after it.

    The sizes differ if the file changed during the upload.
    """

    signature: Signature
    size_bytes: int
    etag: str | None


class CheckpointSync:
    """Mirrors a folder to S3: uploads new and changed files, and deletes objects whose file the job has deleted.

    Several hosts may share one place in S3. A host deletes only objects that it has uploaded or downloaded itself and
    that no other host has overwritten since. A file that is being written is uploaded later, and S3 keeps its last
    complete copy until then. A file that cannot be read, or whose name cannot be a key, is skipped with a warning. If
    S3 does not answer, the methods raise the errors that `ObjectStore` names, in place of ClientError.

    Args:
        folder: The job's checkpoint folder, or the folder of a processing output with S3UploadMode Continuous.
        uri: S3 URI of the checkpoints or of the output.
        object_store: S3.
        interval_s: Seconds between two uploads while the job runs.
    """

    def __init__(self, folder: Path, uri: str, object_store: ObjectStore, interval_s: float) -> None:
        # With the slash, the prefix run-1/ does not include the checkpoints of run-10.
        self._folder, self._uri, self._object_store = folder, uri.rstrip("/") + "/", object_store
        self._interval_s = interval_s
        self._due_at = 0.0
        self._uploads: dict[str, _Upload] = {}
        # Files that the last upload skipped, since they were being written, or may not be complete.
        self._skipped_files: dict[str, Signature] = {}
        self._warned_names: set[str] = set()

    def download(self) -> int:
        """Download all objects from S3 to the folder, before the job starts. Return the number of files.

        An object whose key cannot be a file name is skipped with a warning.

        Raises:
            ClientError: The bucket does not exist, or S3 failed. A retry can help.
            ValueError: An object was deleted during the download. A retry can help.
            OSError: The disk is full or not writable. A retry can help.
        """
        bucket, prefix = split_uri(self._uri)
        etags = {key[len(prefix) :]: etag for key, etag in self._object_store.list_etags(self._uri).items()}
        for name, reason in find_invalid_names(etags).items():
            self._warn(name, reason)
            del etags[name]
        self._object_store.download_all({f"s3://{bucket}/{prefix}{name}": self._folder / name for name in etags})
        files, _ = self._scan()
        # The name of the file may differ from the key: two slashes in a row become one.
        etags_by_name = {Path(name).as_posix(): etag for name, etag in etags.items()}
        self._uploads = {
            name: _Upload(signature, signature.size_bytes, etags_by_name[name])
            for name, (_, signature) in files.items()
            if name in etags_by_name
        }
        self._due_at = time.monotonic() + self._interval_s
        return len(self._uploads)

    def upload_if_due(self) -> None:
        """Upload what has changed, at most once per interval. If S3 does not answer, raise without waiting for it.

        Raises:
            ClientError: S3 failed. A retry can help: the next call uploads what is missing.
        """
        if time.monotonic() >= self._due_at:
            try:
                self._upload_changes(self._object_store.get_store_without_retries(), self._copy_stable_file)
            finally:
                self._due_at = time.monotonic() + self._interval_s

    def upload(self) -> None:
        """Upload what has changed since the last upload, and delete what the job has deleted. Idempotent.

        Raises:
            ClientError: S3 failed. A retry can help: the next call uploads what is missing.
        """
        self._upload_changes(self._object_store, self._copy_stable_file)

    def upload_last_changes(self, was_killed: bool) -> None:
        """Upload what has changed since the last upload, after the end of the job. Idempotent.

        The files are sent without a copy, since a full disk has no room for a copy. If a file is not sent because it is
        incomplete or cannot be read, no object is deleted, so that S3 keeps the last complete copies.

        Args:
            was_killed: Whether a signal ended the job. If so, a file that the job was writing is not sent.

        Raises:
            ClientError: S3 failed. A retry can help: the next call uploads what is missing.
        """
        opener = self._open_if_complete if was_killed else _open
        self._upload_changes(self._object_store, opener, deletes_if_files_are_skipped=False)

    def _upload_changes(
        self, object_store: ObjectStore, opener: Opener, *, deletes_if_files_are_skipped: bool = True
    ) -> None:
        files, is_scan_complete = self._scan()
        skipped_files = {}
        for name, (path, signature) in files.items():
            if name not in self._uploads or self._uploads[name].signature != signature:
                stream = self._open_file(name, path, signature, opener)
                if stream is None:
                    skipped_files[name] = signature
                else:
                    # The signature is from before the upload. So the next call uploads a file that changed meanwhile.
                    self._upload_file(object_store, name, stream, signature)
        self._skipped_files = skipped_files
        # If a folder could not be read, the job has not necessarily deleted a file that was not found.
        if is_scan_complete and (deletes_if_files_are_skipped or not skipped_files):
            for name in self._uploads.keys() - files.keys():
                self._delete(object_store, name)

    def _copy_stable_file(self, name: str, path: Path, signature: Signature) -> BinaryIO | None:
        """Copy a file; return None if it is being written or may be truncated. For quiet files, see QUIET_S.

        A file that is shorter than its object in S3 may be truncated: the job truncates a file before it writes it
        again, and a signal may have ended the job in between. Once the server knows that a signal ended the job,
        `upload_last_changes` skips such a file. Because the server may learn this late, this method copies such a file
        only if it has not changed for QUIET_S seconds.
        """
        is_quiet = time.time_ns() - signature.modified_ns >= QUIET_S * 1e9
        is_truncated = self._may_be_truncated(name, signature)
        if is_truncated and not is_quiet:
            return None
        copy = copy_stable(path, self._folder.parent, ignore_writers=is_quiet and not is_truncated)
        if copy is None or is_quiet or not self._may_be_truncated(name, signature._replace(size_bytes=_get_size(copy))):
            return copy
        copy.close()
        return None

    def _open_if_complete(self, name: str, path: Path, signature: Signature) -> BinaryIO | None:
        """Open a file of a job that a signal has ended; return None if the job was writing the file.

        The job was writing a file if the file was being written at the last upload, and has not changed since. The job
        was probably writing it, too, if the file is shorter than its object in S3: most scripts truncate a file before
        they write it again.
        """
        was_being_written = self._skipped_files.get(name) == signature
        return None if was_being_written or self._may_be_truncated(name, signature) else open_regular_file(path)

    def _may_be_truncated(self, name: str, signature: Signature) -> bool:
        """Return whether a file is shorter than at its last upload (the inode is the same), or is new and empty."""
        if name not in self._uploads:
            return not signature.size_bytes
        upload = self._uploads[name]
        return signature.inode == upload.signature.inode and signature.size_bytes < upload.size_bytes

    def _open_file(self, name: str, path: Path, signature: Signature, opener: Opener) -> BinaryIO | None:
        try:
            return opener(name, path, signature)
        except FileNotFoundError:  # the job has renamed or deleted it since the scan
            return None
        except OSError as error:
            self._warn(name, f"cannot be read: {error.strerror}")
            return None

    def _upload_file(self, object_store: ObjectStore, name: str, stream: BinaryIO, signature: Signature) -> None:
        with stream:
            uri = join_uri(self._uri, name)
            size_bytes = _get_size(stream)
            object_store.write(stream, uri)
            self._uploads[name] = _Upload(signature, size_bytes, object_store.read_etag(uri))

    def _delete(self, object_store: ObjectStore, name: str) -> None:
        uri = join_uri(self._uri, name)
        if object_store.read_etag(uri) == self._uploads[name].etag:
            object_store.delete(uri)
        del self._uploads[name]

    def _scan(self) -> tuple[dict[str, tuple[Path, Signature]], bool]:
        """Return the path and the signature of each file, by name, and whether every folder could be read.

        The oldest file comes first, since a newer file may refer to older ones.
        """
        files: dict[str, tuple[Path, Signature]] = {}
        errors: list[OSError] = []
        for entry in walk_folder(self._folder, errors.append):
            if (
                entry.kind is EntryKind.FILE
                and not entry.name.endswith(MARKER_ENDINGS)
                and self._is_valid_key(entry.name)
            ):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.path.lstat()
                    files[entry.name] = (
                        entry.path,
                        Signature(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino),
                    )
        for error in errors:
            self._warn(str(error.filename), f"cannot be read: {error.strerror}")
        return dict(sorted(files.items(), key=lambda item: (item[1][1], item[0]))), not errors

    def _is_valid_key(self, name: str) -> bool:
        """Return whether a file's name can be a key in S3; warn if not."""
        key = os.fsencode(split_uri(self._uri)[1] + name)
        if _is_utf8(key) and len(key) <= KEY_MAX_BYTES:
            return True
        self._warn(name, f"cannot be a key in S3: it is not UTF-8, or has more than {KEY_MAX_BYTES} bytes")
        return False

    def _warn(self, name: str, reason: str) -> None:
        if name not in self._warned_names:  # once per file: the folder is scanned every few seconds
            self._warned_names.add(name)
            log.warning("the file %.200r for %s is skipped: it %s", name, self._uri, reason)


def _open(name: str, path: Path, signature: Signature) -> BinaryIO:
    return open_regular_file(path)


def _is_utf8(name: bytes) -> bool:
    with contextlib.suppress(UnicodeDecodeError):
        return bool(name.decode())
    return False


def _get_size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
