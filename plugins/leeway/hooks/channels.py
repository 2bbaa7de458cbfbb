"""Putting what a training job needs into S3, under names made of its content."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException


class ChannelHook:
    """Uploads channels and source bundles to one bucket. Idempotent: what is there already is not sent again."""

    def __init__(self, s3: S3Hook, bucket: str, prefix: str) -> None:
        self.s3, self.bucket, self.prefix = s3, bucket, prefix

    def channel(self, place: str) -> str:
        """The s3:// prefix that holds the channel: `place` itself where it is one, else an upload of that folder.

        Raises:
            AirflowFailException: the folder is not there or empty.
        """
        if place.startswith("s3://"):
            return place
        files = sorted(path for path in Path(place).rglob("*") if path.is_file())
        if not files:
            raise AirflowFailException(f"channel folder {place} is not there or empty.")
        names = {str(path.relative_to(place)): path for path in files}
        digest = _digest(names)
        for name, path in names.items():
            key = f"{self.prefix}/data/{digest}/{name}"
            if not self.s3.check_for_key(key, self.bucket):
                self.s3.load_file(str(path), key, self.bucket, replace=True)
        return f"s3://{self.bucket}/{self.prefix}/data/{digest}/"

    def bundle(self, project: Path, entry_point: str, listing: str) -> str:
        """The s3:// address of a sourcedir.tar.gz: the entry point at its root, the listed files under their paths.

        Raises:
            AirflowFailException: a file is not there.
        """
        listed = (project / listing).read_text(encoding="utf-8").split() if (project / listing).is_file() else [listing]
        members = {Path(entry_point).name: project / entry_point} | {name: project / name for name in listed}
        missing = [str(path) for path in members.values() if not path.is_file()]
        if missing:
            raise AirflowFailException(f"the training's source is not there: {', '.join(missing)}.")
        archive = _archive(members)
        key = f"{self.prefix}/code/{hashlib.sha256(archive).hexdigest()[:20]}/sourcedir.tar.gz"
        if not self.s3.check_for_key(key, self.bucket):
            self.s3.load_bytes(archive, key, self.bucket, replace=True)
        return f"s3://{self.bucket}/{key}"


def _digest(names: dict[str, Path]) -> str:
    """20 hex digits of SHA-256 over the names and contents."""
    told = hashlib.sha256()
    for name, path in names.items():
        with path.open("rb") as file:
            told.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return told.hexdigest()[:20]


def _archive(members: dict[str, Path]) -> bytes:
    """A tar.gz with nothing in it but names and contents: equal files give equal bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, path in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(info, file)
    return gzip.compress(plain.getvalue(), mtime=0)
