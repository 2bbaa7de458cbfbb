"""Putting what a training job needs into S3, under names made of its content."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException


class ChannelHook:
    """Uploads channels and source bundles to one bucket. Idempotent: what is there already is not sent again."""

    def __init__(self, s3: S3Hook, bucket: str, prefix: str) -> None:
        self.s3, self.bucket, self.prefix = s3, bucket, prefix

    def check(self, places: Iterable[str]) -> None:
        """The bucket and every channel are there, and none is empty; a call each.

        Raises:
            AirflowFailException: one is not.
        """
        if not self.s3.check_for_bucket(self.bucket):
            raise AirflowFailException(f"the bucket {self.bucket} is not there, or not for this account to use.")
        for place in places:
            bucket, _, prefix = place.removeprefix("s3://").partition("/")
            if not place.startswith("s3://"):
                _files(place)
            elif not self.s3.get_conn().list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1).get("KeyCount"):
                raise AirflowFailException(f"nothing is in the channel {place}.")

    def channel(self, place: str) -> str:
        """The s3:// prefix that holds the channel: `place` itself where it is one, else an upload of that folder.

        Raises:
            AirflowFailException: the folder is not there or empty.
        """
        if place.startswith("s3://"):
            return place
        names = {str(path.relative_to(place)): path for path in _files(place)}
        prefix = f"{self.prefix}/features/{_digest(names)}/"
        there = self._there(prefix)
        for name, path in names.items():
            if there.get(f"{prefix}{name}") != path.stat().st_size:
                self.s3.load_file(str(path), f"{prefix}{name}", self.bucket, replace=True)
        return f"s3://{self.bucket}/{prefix}"

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

    def _there(self, prefix: str) -> dict[str, int]:
        """Key to size of what is below a prefix: one list, and no marker, which SageMaker would take for data.

        S3 shows an object when it is whole, and the prefix names the content: the same size is the same object.
        """
        found = self.s3.get_file_metadata(prefix, self.bucket)
        return {str(one["Key"]): int(one["Size"]) for one in found}


def _files(place: str) -> list[Path]:
    """The files of a channel that is a folder."""
    files = sorted(path for path in Path(place).rglob("*") if path.is_file())
    if not files:
        raise AirflowFailException(f"channel folder {place} is not there or empty.")
    return files


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
