"""The mirror of the checkpoint folder."""

from pathlib import Path
from typing import cast

import pytest

from drydock.checkpoints import CheckpointSync
from drydock.objects import ObjectStore


class Recorder:
    """Stands in for S3: keeps the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def download_prefix(self, uri: str, folder: Path) -> None:
        self.calls.append(("download", uri))
        (folder / "old").write_text("from S3")

    def upload(self, path: Path, uri: str) -> None:
        path.read_bytes()
        self.calls.append(("upload", uri))

    def delete(self, uri: str) -> None:
        self.calls.append(("delete", uri))

    def taken(self) -> list[tuple[str, str]]:
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def store() -> Recorder:
    return Recorder()


@pytest.fixture
def sync(tmp_path: Path, store: Recorder) -> CheckpointSync:
    return CheckpointSync(tmp_path, "s3://b/run-1", cast(ObjectStore, store), interval_s=0.0)


def test_only_changes_are_copied(tmp_path: Path, store: Recorder, sync: CheckpointSync) -> None:
    assert sync.download() == 1
    assert store.taken() == [("download", "s3://b/run-1/")]
    sync.copy()
    assert store.taken() == []
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "new").write_text("1")
    sync.copy()
    assert store.taken() == [("upload", "s3://b/run-1/sub/new")]
    (tmp_path / "sub" / "new").write_text("other")
    (tmp_path / "old").unlink()
    sync.copy()
    assert store.taken() == [("upload", "s3://b/run-1/sub/new"), ("delete", "s3://b/run-1/old")]
    sync.copy()
    assert store.taken() == []


def test_a_file_that_vanishes_is_passed_over(
    tmp_path: Path, store: Recorder, sync: CheckpointSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").write_text("1")
    (tmp_path / "here").write_text("1")
    upload = store.upload

    def vanish(path: Path, uri: str) -> None:
        path.unlink() if path.name == "gone" else None
        upload(path, uri)

    monkeypatch.setattr(store, "upload", vanish)
    sync.copy()
    assert store.taken() == [("upload", "s3://b/run-1/here")]


def test_a_failed_copy_is_taken_up_again(
    tmp_path: Path, store: Recorder, sync: CheckpointSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("1")

    def fail(path: Path, uri: str) -> None:
        raise ConnectionError(uri)

    with monkeypatch.context() as patch:
        patch.setattr(store, "upload", fail)
        with pytest.raises(ConnectionError):
            sync.copy()
    sync.copy()
    assert store.taken() == [("upload", "s3://b/run-1/a")]


def test_links_are_not_followed(tmp_path: Path, store: Recorder, sync: CheckpointSync) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    sync.copy()
    assert store.taken() == []
