"""Test the download of a channel to a host, and the checks of a channel."""

import os
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from drydock.transfer import channels
from drydock.transfer.objects import ObjectStore


def build_channel(
    uri: str, kind: str = "S3Prefix", source: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """Return a channel of a request."""
    s3_source = {"S3DataType": kind, "S3Uri": uri, **(source or {})}
    return {"ChannelName": "train", "DataSource": {"S3DataSource": s3_source}, **fields}


def read_files(folder: Path) -> dict[str, str]:
    """Return the files of a folder: path to text."""
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def download(
    objects: ObjectStore, channel: dict[str, Any], folder: Path, number: int = 0, count: int = 1, mode: str = "File"
) -> int:
    """Download a channel as one of `count` hosts; return the number of its objects."""
    return channels.download_channel(objects, channel, folder, host_number=number, host_count=count, default_mode=mode)


def test_objects_of_a_prefix_are_downloaded(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    for name in ("train/a", "train/sub/b", "train/sub/", "train-2/c", "other"):
        s3.put(name, name)
    assert download(objects, build_channel(s3.build_uri("train/")), tmp_path / "in") == 2
    assert read_files(tmp_path / "in") == {"a": "train/a", "sub/b": "train/sub/b"}


def test_empty_prefix_has_no_objects(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    assert download(objects, build_channel(s3.build_uri("none/")), tmp_path / "in") == 0
    assert (
        download(
            objects, build_channel(s3.put_manifest("m", {"prefix": s3.build_uri("")}), "ManifestFile"), tmp_path / "in"
        )
        == 0
    )
    with pytest.raises(ClientError, match="NoSuchBucket"):
        download(objects, build_channel("s3://no-such-bucket-here/x"), tmp_path / "in")


def test_objects_of_a_manifest_are_downloaded(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    for name in ("data/a", "data/sub/b", "data/c", "d"):
        s3.put(name, name)
    uri = s3.put_manifest("train.manifest", {"prefix": s3.build_uri("data/")}, "sub/b", "a", "a")
    assert download(objects, build_channel(uri, "ManifestFile"), tmp_path / "in") == 2
    assert read_files(tmp_path / "in") == {"a": "data/a", "sub/b": "data/sub/b"}
    slash_uri = s3.put_manifest("slash.manifest", {"prefix": s3.build_uri("data")}, "/a")
    assert download(objects, build_channel(slash_uri, "ManifestFile"), tmp_path / "slash") == 1
    assert read_files(tmp_path / "slash") == {"a": "data/a"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("no json", "not JSON"),
        (b"\xff\xff\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("{}", "not a JSON list"),
        ("[]", "not a JSON list"),
        ('["a"]', "does not begin with"),
        ('[{"prefix": ""}, "a"]', "does not begin with"),
        ('[{"prefix": "s3://"}, "a"]', "does not begin with"),
        ('[{"prefix": ["s3://b/"]}, "a"]', "does not begin with"),
        ('[{"prefix": "s3://bucket/"}, 3]', "not a key: '3'"),
        ('[{"prefix": "s3://bucket/"}, ""]', "not a key"),
        ('[{"prefix": "s3://bucket/"}, "../a"]', "outside its folder"),
        ('[{"prefix": "s3://bucket/"}, "a", "a/b"]', "is both a file and the folder of another file"),
    ],
)
def test_invalid_manifest_is_refused(
    s3: Any, objects: ObjectStore, tmp_path: Path, body: str | bytes, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        download(objects, build_channel(s3.put("m", body), "ManifestFile"), tmp_path / "in")
    assert len(str(error.value)) < 500 and not (tmp_path / "in").exists()


def test_manifest_with_a_missing_object_is_refused(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    uri = s3.put_manifest("m", {"prefix": s3.build_uri("data/")}, "missing.csv")
    with pytest.raises(ValueError, match=r"there is no object s3://bucket-\w+/data/missing\.csv"):
        download(objects, build_channel(uri, "ManifestFile"), tmp_path / "in")


@pytest.mark.parametrize("kind", ["S3Prefix", "ManifestFile"])
@pytest.mark.parametrize("fields", [{}, {"ShuffleConfig": {"Seed": 7}}])
def test_objects_are_sharded_between_hosts(
    s3: Any, objects: ObjectStore, tmp_path: Path, kind: str, fields: dict[str, Any]
) -> None:
    names = [f"{number:02}" for number in range(10)]
    for name in names:
        s3.put(f"data/{name}", name)
    uri = (
        s3.build_uri("data/") if kind == "S3Prefix" else s3.put_manifest("m", {"prefix": s3.build_uri("data/")}, *names)
    )
    sharded_channel = build_channel(uri, kind, {"S3DataDistributionType": "ShardedByS3Key"}, **fields)
    for number in range(3):
        assert download(objects, sharded_channel, tmp_path / f"{number}", number, 3) == 10
    shares = [list(read_files(tmp_path / f"{number}")) for number in range(3)]
    assert sorted(len(share) for share in shares) == [3, 3, 4]
    assert sorted(name for share in shares for name in share) == names
    replicated_channel = build_channel(uri, kind, {"S3DataDistributionType": "FullyReplicated"}, **fields)
    download(objects, replicated_channel, tmp_path / "whole", 2, 3)
    assert sorted(read_files(tmp_path / "whole")) == names


def test_seed_determines_the_shares(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    for number in range(10):
        s3.put(f"data/{number}")

    def download_share(folder: str, **fields: Any) -> list[str]:
        sharded_channel = build_channel(
            s3.build_uri("data/"), source={"S3DataDistributionType": "ShardedByS3Key"}, **fields
        )
        download(objects, sharded_channel, tmp_path / folder, 0, 2)
        return sorted(read_files(tmp_path / folder))

    first, repeat = (download_share(folder, ShuffleConfig={"Seed": 1}) for folder in ("first", "again"))
    assert first == repeat != download_share("plain") == ["0", "2", "4", "6", "8"]


def test_host_may_have_an_empty_share(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    s3.put("data/a")
    sharded_channel = build_channel(s3.build_uri("data/"), source={"S3DataDistributionType": "ShardedByS3Key"})
    assert download(objects, sharded_channel, tmp_path / "1", 1, 2) == 1
    assert not (tmp_path / "1").exists()


def test_files_of_fast_file_mode_are_read_only(s3: Any, objects: ObjectStore, tmp_path: Path) -> None:
    s3.put("data/a", "a")

    def read_write_bits(folder: str, default: str, **fields: Any) -> int:
        download(objects, build_channel(s3.build_uri("data/"), **fields), tmp_path / folder, mode=default)
        return os.stat(tmp_path / folder / "a").st_mode & 0o222

    assert read_write_bits("1", "FastFile") == read_write_bits("2", "File", InputMode="FastFile") == 0
    assert read_write_bits("3", "File") and read_write_bits("4", "FastFile", InputMode="File")


@pytest.mark.parametrize("keys", [["in/a", "in/a/b"], ["in/../../escaped"], ["in//etc/escaped"]])
def test_keys_that_cannot_be_file_names_are_refused(
    s3: Any, objects: ObjectStore, tmp_path: Path, keys: list[str]
) -> None:
    for key in keys:
        s3.put(key)
    if "in/../../escaped" in keys and s3.list_keys() != keys:
        pytest.skip("this client resolves the dots in a key")
    with pytest.raises(ValueError, match=r"the key '.+' (is both a file and|points outside)"):
        download(objects, build_channel(s3.build_uri("in/")), tmp_path / "in")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "channel",
    [
        build_channel("s3://bucket/train/"),
        build_channel("s3://bucket"),
        build_channel("s3://bucket/m", "ManifestFile", InputMode="FastFile"),
        build_channel("s3://bucket/x", InputMode="File", CompressionType="None", RecordWrapperType="None"),
        build_channel("s3://bucket/x", ShuffleConfig={"Seed": 1}),
    ],
)
def test_valid_channel_is_accepted(channel: dict[str, Any]) -> None:
    assert channels.find_channel_problem(channel) == ""


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        ({"ChannelName": "train", "DataSource": {"FileSystemDataSource": {}}}, "use S3DataSource"),
        (build_channel("s3://bucket/m", "AugmentedManifestFile"), "needs Pipe mode"),
        (build_channel("s3://bucket/m", "Converse"), "S3DataType Converse"),
        (build_channel("https://bucket/m"), "not an s3:// URI"),
        (build_channel("s3:///m"), "not an s3:// URI"),
        (build_channel("s3://bucket", "ManifestFile"), "must be the URI of one object"),
        (build_channel("s3://bucket/m/", "ManifestFile"), "must be the URI of one object"),
        (build_channel("s3://bucket/m", InputMode="Pipe"), "InputMode Pipe"),
        (build_channel("s3://bucket/m", CompressionType="Gzip"), "CompressionType Gzip is only used in Pipe mode"),
        (build_channel("s3://bucket/m", RecordWrapperType="RecordIO"), "RecordWrapperType RecordIO is only used"),
        (build_channel("s3://bucket/m", source={"InstanceGroupNames": ["a"]}), "InstanceGroupNames"),
    ],
)
def test_invalid_channel_is_refused(channel: dict[str, Any], reason: str) -> None:
    problem = channels.find_channel_problem(channel)
    assert problem.startswith("Channel train: ") and reason in problem
