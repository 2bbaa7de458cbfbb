"""Bundles and channels: names made of content, uploaded once, complete, and equal bytes for equal files."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.sagemaker.uploads import S3Uploader

ROOT = Path(__file__).parents[5]
BUNDLE = "pipelines/datasets/flights/bundle.txt"
SCRIPT = "pipelines/datasets/flights/training.py"


class Bucket:
    """What S3Uploader asks of S3Hook; the real one meets a real server in tests/integration/leeway."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: list[str] = []
        self.lists: list[str] = []

    def check_for_key(self, key: str, bucket: str) -> bool:
        return key in self.objects

    def get_file_metadata(self, prefix: str, bucket: str) -> list[dict[str, object]]:
        self.lists.append(prefix)
        return [{"Key": key, "Size": len(body)} for key, body in self.objects.items() if key.startswith(prefix)]

    def load_file(self, path: str, key: str, bucket: str, replace: bool) -> None:
        self.load_bytes(Path(path).read_bytes(), key, bucket, replace)

    def load_bytes(self, content: bytes, key: str, bucket: str, replace: bool) -> None:
        self.uploads.append(key)
        self.objects[key] = content


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def hook(bucket) -> S3Uploader:
    return S3Uploader(bucket, "b", "p")


def written(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


def test_channel_is_uploaded_once_a_content(hook, bucket, tmp_path):
    place = hook.upload_channel(written(tmp_path / "one", **{"a": "1", "deep/b": "2"}))
    assert place.startswith("s3://b/p/features/")
    assert place.endswith("/")
    assert len(bucket.uploads) == 2
    assert hook.upload_channel(written(tmp_path / "copy", **{"a": "1", "deep/b": "2"})) == place
    assert len(bucket.uploads) == 2
    assert len(bucket.lists) == 2, "one call a channel, however many files"


def test_other_content_or_other_names_are_another_channel(hook, bucket, tmp_path):
    places = {
        hook.upload_channel(written(tmp_path / "one", a="1")),
        hook.upload_channel(written(tmp_path / "two", a="2")),
        hook.upload_channel(written(tmp_path / "three", b="1")),
    }
    assert len(places) == 3


def test_upload_that_was_cut_off_is_completed(hook, bucket, tmp_path):
    folder = written(tmp_path / "one", a="1", b="2")
    hook.upload_channel(folder)
    lost = bucket.uploads[1]
    del bucket.objects[lost]
    hook.upload_channel(folder)
    assert bucket.uploads[2:] == [lost]
    bucket.objects[lost] = b"cut"
    hook.upload_channel(folder)
    assert bucket.uploads[3:] == [lost]


def test_channel_that_is_in_s3_stays_there(hook, bucket):
    assert hook.upload_channel("s3://other/place/") == "s3://other/place/"
    assert bucket.uploads == []


def test_channel_that_is_not_there_or_empty_is_refused(hook, tmp_path):
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    for place in (tmp_path / "nothing", tmp_path / "empty"):
        with pytest.raises(AirflowFailException, match="does not exist or is empty"):
            hook.upload_channel(str(place))


def project(folder: Path, age: int = 0) -> Path:
    written(folder, **{"deep/train.py": "import extra", "lib/extra.py": "x = 1", "bundle.txt": "lib/extra.py\n"})
    for path in folder.rglob("*"):
        os.utime(path, (age, age))
    (folder / "deep" / "train.py").chmod(0o600 if age else 0o755)
    return folder


def test_equal_files_give_equal_bundles_whenever_and_wherever(hook, bucket, tmp_path):
    first = hook.upload_bundle(project(tmp_path / "one"), "deep/train.py", "bundle.txt")
    second = hook.upload_bundle(project(tmp_path / "two", age=1_000_000_000), "deep/train.py", "bundle.txt")
    assert first == second
    assert len(bucket.uploads) == 1
    (tmp_path / "two" / "lib" / "extra.py").write_text("x = 2")
    assert hook.upload_bundle(tmp_path / "two", "deep/train.py", "bundle.txt") != first


def test_bundle_holds_the_script_at_its_root_and_the_rest_under_its_paths(hook, bucket, tmp_path):
    hook.upload_bundle(project(tmp_path / "one"), "deep/train.py", "bundle.txt")
    content = bucket.objects[bucket.uploads[0]]
    assert content[4:8] == b"\0\0\0\0"  # gzip's time
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as tar:
        assert tar.getnames() == ["lib/extra.py", "train.py"]
        assert {(one.mtime, one.uid, one.uname, one.mode) for one in tar} == {(0, 0, "", 0o644)}
        assert tar.extractfile("train.py").read() == b"import extra"


@pytest.mark.parametrize("gone", ["deep/train.py", "lib/extra.py", "bundle.txt"])
def test_bundle_that_is_not_whole_is_refused_by_name(hook, bucket, tmp_path, gone):
    folder = project(tmp_path / "one")
    (folder / gone).unlink()
    with pytest.raises(AirflowFailException, match=gone):
        hook.upload_bundle(folder, "deep/train.py", "bundle.txt")
    assert bucket.uploads == []


def test_bundle_of_the_flights_model_is_there(hook, bucket):
    assert hook.upload_bundle(ROOT, SCRIPT, BUNDLE).endswith("/sourcedir.tar.gz")
