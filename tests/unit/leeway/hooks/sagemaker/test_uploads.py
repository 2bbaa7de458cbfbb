"""Test the uploads of bundles and channels: named by content, uploaded once, complete, and byte-identical."""

import gzip
import io
import logging
import os
import tarfile
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.sagemaker.uploads import S3Uploader

ROOT = Path(__file__).parents[5]
BUNDLE = "pipelines/defaults/bundle.txt"
SCRIPT = "pipelines/defaults/training.py"


class FakeS3Hook:
    """A fake S3Hook with the methods that S3Uploader calls. The tests in tests/integration/leeway use the real hook."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: list[str] = []
        self.listed_prefixes: list[str] = []

    def check_for_key(self, key: str, bucket: str) -> bool:
        return key in self.objects

    def get_file_metadata(self, prefix: str, bucket: str) -> list[dict[str, object]]:
        self.listed_prefixes.append(prefix)
        return [{"Key": key, "Size": len(body)} for key, body in self.objects.items() if key.startswith(prefix)]

    def list_keys(self, bucket: str, prefix: str, max_items: int) -> list[str]:
        return [key for key in self.objects if key.startswith(prefix)][:max_items]

    def load_file(self, path: str, key: str, bucket: str, replace: bool) -> None:
        self.load_bytes(Path(path).read_bytes(), key, bucket, replace)

    def load_bytes(self, content: bytes, key: str, bucket: str, replace: bool) -> None:
        self.uploads.append(key)
        self.objects[key] = content


@pytest.fixture
def bucket() -> FakeS3Hook:
    """Return an empty bucket."""
    return FakeS3Hook()


@pytest.fixture
def uploader(bucket) -> S3Uploader:
    """Return an uploader to the bucket."""
    return S3Uploader(bucket, "b", "p", logging.getLogger())


def write_files(folder: Path, **files: str) -> str:
    """Write text files, and return the folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


@pytest.mark.parametrize("count", [1, 1_001])
def test_each_instance_needs_an_object_of_a_divided_channel(uploader, bucket, count):
    bucket.objects = {f"rows/{number}": b"" for number in range(count)}
    uploader.check_shards("train", "s3://b/rows/", count)
    with pytest.raises(AirflowFailException, match=f"has {count} objects, which are divided among {count + 1} inst"):
        uploader.check_shards("train", "s3://b/rows/", count + 1)


def test_same_content_is_uploaded_once(uploader, bucket, tmp_path):
    uri = uploader.upload_channel(write_files(tmp_path / "one", **{"a": "1", "deep/b": "2"}))
    assert uri.startswith("s3://b/p/features/")
    assert uri.endswith("/")
    assert len(bucket.uploads) == 2
    assert uploader.upload_channel(write_files(tmp_path / "copy", **{"a": "1", "deep/b": "2"})) == uri
    assert len(bucket.uploads) == 2
    assert len(bucket.listed_prefixes) == 2, "a channel needs one call, whatever the number of its files"


def test_other_content_or_other_names_give_another_channel(uploader, bucket, tmp_path):
    uris = {
        uploader.upload_channel(write_files(tmp_path / "one", a="1")),
        uploader.upload_channel(write_files(tmp_path / "two", a="2")),
        uploader.upload_channel(write_files(tmp_path / "three", b="1")),
    }
    assert len(uris) == 3


def test_interrupted_upload_is_completed(uploader, bucket, tmp_path):
    folder = write_files(tmp_path / "one", a="1", b="2")
    uploader.upload_channel(folder)
    key = bucket.uploads[1]
    del bucket.objects[key]
    uploader.upload_channel(folder)
    assert bucket.uploads[2:] == [key]
    bucket.objects[key] = b"cut"
    uploader.upload_channel(folder)
    assert bucket.uploads[3:] == [key]


def test_channel_in_s3_is_not_uploaded(uploader, bucket):
    assert uploader.upload_channel("s3://other/folder/") == "s3://other/folder/"
    assert bucket.uploads == []


def test_refuses_a_missing_or_empty_channel(uploader, tmp_path):
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    for folder in (tmp_path / "nothing", tmp_path / "empty"):
        with pytest.raises(AirflowFailException, match="does not exist or is empty"):
            uploader.upload_channel(str(folder))


def write_project(folder: Path, mtime: int = 0) -> Path:
    """Write a project with a training script, a module and a bundle list.

    If `mtime` is not 0, the script gets another mode too.
    """
    write_files(folder, **{"deep/train.py": "import extra", "lib/extra.py": "x = 1", "bundle.txt": "lib/extra.py\n"})
    for path in folder.rglob("*"):
        os.utime(path, (mtime, mtime))
    (folder / "deep" / "train.py").chmod(0o600 if mtime else 0o755)
    return folder


def test_equal_files_give_equal_bundles_whatever_their_path_time_and_mode(uploader, bucket, tmp_path):
    first = uploader.upload_bundle(write_project(tmp_path / "one"), "deep/train.py", "bundle.txt")
    second = uploader.upload_bundle(write_project(tmp_path / "two", mtime=1_000_000_000), "deep/train.py", "bundle.txt")
    assert first == second
    assert len(bucket.uploads) == 1
    (tmp_path / "two" / "lib" / "extra.py").write_text("x = 2")
    assert uploader.upload_bundle(tmp_path / "two", "deep/train.py", "bundle.txt") != first


def test_bundle_has_the_script_at_its_root_and_other_files_at_their_paths(uploader, bucket, tmp_path):
    uploader.upload_bundle(write_project(tmp_path / "one"), "deep/train.py", "bundle.txt")
    content = bucket.objects[bucket.uploads[0]]
    assert content[4:8] == b"\0\0\0\0"  # gzip's time
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as tar:
        assert tar.getnames() == ["lib/extra.py", "train.py"]
        assert {(member.mtime, member.uid, member.uname, member.mode) for member in tar} == {(0, 0, "", 0o644)}
        assert tar.extractfile("train.py").read() == b"import extra"


def test_listed_requirements_are_at_the_root_of_the_bundle(uploader, bucket, tmp_path):
    folder = write_project(tmp_path / "one")
    write_files(folder, **{"deep/requirements.txt": "peft", "requirements.txt": "of the project"})
    uploader.upload_bundle(folder, "deep/train.py", "bundle.txt")
    (folder / "bundle.txt").write_text("lib/extra.py deep/requirements.txt")
    uploader.upload_bundle(folder, "deep/train.py", "bundle.txt")
    archives = [gzip.decompress(bucket.objects[key]) for key in bucket.uploads]
    names, texts = ["lib/extra.py", "requirements.txt", "train.py"], []
    for archive in archives:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            texts.append({name: tar.extractfile(name).read() for name in tar.getnames()})
    assert "requirements.txt" not in texts[0]  # a file that is not listed is left out
    assert sorted(texts[1]) == names and texts[1]["requirements.txt"] == b"peft"


@pytest.mark.parametrize("name", ["deep/train.py", "lib/extra.py", "bundle.txt"])
def test_refuses_a_bundle_without_one_of_its_files(uploader, bucket, tmp_path, name):
    folder = write_project(tmp_path / "one")
    (folder / name).unlink()
    with pytest.raises(AirflowFailException, match=name):
        uploader.upload_bundle(folder, "deep/train.py", "bundle.txt")
    assert bucket.uploads == []


def test_bundle_of_the_trees_is_complete(uploader, bucket):
    assert uploader.upload_bundle(ROOT, SCRIPT, BUNDLE).endswith("/sourcedir.tar.gz")
