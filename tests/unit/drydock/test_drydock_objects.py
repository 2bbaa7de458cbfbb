"""Names in S3, and where objects land."""

from pathlib import Path

import pytest

from drydock.objects import ObjectStore, join_uri, local_name, split_uri


@pytest.mark.parametrize(
    ("key", "prefix", "name"),
    [
        ("data/train/a.csv", "data/train/", "a.csv"),
        ("data/train/a.csv", "data/train", "a.csv"),
        ("data/train/x/a.csv", "data/train", "x/a.csv"),
        ("data/train.csv", "data/train.csv", "train.csv"),
        ("data/train-2.csv", "data/train", "train-2.csv"),
        ("a.csv", "", "a.csv"),
        ("a.csv", "a", "a.csv"),
    ],
)
def test_where_an_object_lands(key: str, prefix: str, name: str) -> None:
    assert local_name(key, prefix) == name


def test_uris() -> None:
    assert split_uri("s3://bucket/a/b") == ("bucket", "a/b")
    assert split_uri("s3://bucket") == ("bucket", "")
    assert join_uri("s3://bucket/a/", "b", "c") == join_uri("s3://bucket/a", "b", "c") == "s3://bucket/a/b/c"


@pytest.mark.parametrize("key", ["in/../../escaped", "in//etc/escaped", "in/."])
def test_a_key_outside_its_folder_is_refused(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore("http://127.0.0.1:1", "123456789012", "us-east-1")
    monkeypatch.setattr(store, "keys", lambda uri: [key])
    with pytest.raises(ValueError, match="outside its folder"):
        store.download_prefix("s3://bucket/in/", tmp_path / "in")
