"""The checkpoint folder and its place in S3, kept the same while the job runs."""

import stat
import time
from collections.abc import Iterator
from pathlib import Path

from drydock.objects import ObjectStore, join_uri

Signature = tuple[int, int]


class CheckpointSync:
    """Mirrors a folder to S3: what is new or changed is copied, what the job deletes is deleted there.

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
        self._known: dict[str, Signature] = {}

    def download(self) -> int:
        """The folder holds what S3 has; returns the number of files. Only done before the job starts.

        Raises:
            ClientError: NoSuchBucket, or S3 failed.
            ValueError: A key would land outside the folder.
        """
        self._store.download_prefix(self._uri, self._folder)
        self._known = dict(self._scan())
        self._due = time.monotonic() + self._interval_s
        return len(self._known)

    def copy_if_due(self) -> None:
        """As `copy`, once in every interval."""
        if time.monotonic() >= self._due:
            self.copy()
            self._due = time.monotonic() + self._interval_s

    def copy(self) -> None:
        """S3 holds what the folder held during this call. Idempotent; unchanged files are not copied again.

        Raises:
            Boto3Error: S3 failed; the next call takes up what is missing.
        """
        present = dict(self._scan())
        for name, signature in sorted(present.items()):
            if self._known.get(name) != signature and self._upload(name):
                # The signature from before the copy: a file that changed during it is copied again next time.
                self._known[name] = signature
        for name in self._known.keys() - present.keys():
            self._store.delete(join_uri(self._uri, name))
            del self._known[name]

    def _upload(self, name: str) -> bool:
        try:
            self._store.upload(self._folder / name, join_uri(self._uri, name))
        except FileNotFoundError:  # renamed or deleted by the job since the scan
            return False
        return True

    def _scan(self) -> Iterator[tuple[str, Signature]]:
        for path in self._folder.rglob("*"):
            try:
                info = path.lstat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(info.st_mode):
                yield path.relative_to(self._folder).as_posix(), (info.st_size, info.st_mtime_ns)
