"""Test the size of a training job's data: which channels count, and that the listing is bounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.costs import job_records
from pipelines.costs.usage import input_data
from pipelines.costs.usage.input_data import list_channels, measure_channels


class FakeS3:
    """A client that lists one object of 100 bytes below each key, on pages of two."""

    def __init__(self, *keys: str) -> None:
        self.keys, self.pages = keys, 0

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_objects_v2"
        return self

    def paginate(self, Bucket: str, Prefix: str) -> Iterator[dict[str, Any]]:
        matches = [key for key in self.keys if f"{Bucket}/{key}".startswith(f"{Bucket}/{Prefix}")]
        for begin in range(0, max(1, len(matches)), 2):
            self.pages += 1
            contents = [{"Key": key, "Size": 100} for key in matches[begin : begin + 2]]
            yield {"Contents": contents} if contents else {}


def make_channel(name: str, uri: str = "s3://b/a/", data_type: str = "S3Prefix") -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3DataType": data_type, "S3Uri": uri}}}


def test_all_pages_of_all_channels_are_added_up() -> None:
    s3 = FakeS3("a/1", "a/2", "a/3", "b/1", "c/1")
    assert measure_channels(s3, {"train": "s3://b/a/", "validation": "s3://b/b/"}) == 400
    assert s3.pages == 3
    assert measure_channels(s3, {"train": "s3://b/a/", "again": "s3://b/a/"}) == 600, "each channel is downloaded"
    assert measure_channels(s3, {"all": "s3://b"}) == 500


def test_pretrained_models_and_code_do_not_count() -> None:
    s3 = FakeS3("a/1", "base/1", "code/1")
    channels = {"train": "s3://b/a/", "model": "s3://b/base/", "code": "s3://b/code/"}
    assert measure_channels(s3, channels) == 100
    request = {"InputDataConfig": [make_channel(name, uri) for name, uri in channels.items()]}
    assert list_channels(request) == {"train": "s3://b/a/"}
    assert list_channels({}) == {}


@pytest.mark.parametrize("data_type", ["ManifestFile", "AugmentedManifestFile"])
def test_the_size_of_manifests_is_not_known(data_type: str) -> None:
    channels = [make_channel("train"), make_channel("extra", data_type=data_type)]
    assert list_channels({"InputDataConfig": channels}) is None
    assert list_channels({"InputDataConfig": [make_channel("train"), make_channel("model", data_type=data_type)]})
    file_system = {"ChannelName": "train", "DataSource": {"FileSystemDataSource": {"FileSystemId": "fs-1"}}}
    assert list_channels({"InputDataConfig": [file_system]}) is None


def test_folders_of_this_machine_count(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "rows").write_bytes(b"x" * 50)
    assert measure_channels(FakeS3("a/1"), {"train": str(tmp_path), "validation": "s3://b/a/"}) == 150


def test_the_listing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = FakeS3(*(f"a/{number}" for number in range(100)))
    monkeypatch.setattr(input_data, "MAX_OBJECTS", 9)
    assert measure_channels(s3, {"train": "s3://b/a/"}) is None
    assert s3.pages == 5, "it stops at once"
    monkeypatch.setattr(input_data, "MAX_OBJECTS", 100)
    assert measure_channels(s3, {"train": "s3://b/a/"}) == 10_000
    monkeypatch.setattr(input_data, "MAX_LISTING_S", -1.0)
    assert measure_channels(s3, {"train": "s3://b/a/"}) is None


def test_no_bytes_are_no_size(tmp_path: Path) -> None:
    assert measure_channels(FakeS3(), {"train": "s3://b/a/"}) is None
    assert measure_channels(FakeS3(), {"train": str(tmp_path / "missing")}) is None
    assert measure_channels(FakeS3(), {}) is None


@pytest.mark.parametrize(
    ("environment", "expected_bytes"),
    [({"LEEWAY_INPUT_BYTES": "123"}, 123), ({}, None)]
    + [({"LEEWAY_INPUT_BYTES": text}, None) for text in ("", "0", "-1", "1.5", "1e9", "²", "9" * 19, "None")],
)
def test_the_variable_of_a_job_is_read(environment: dict[str, str], expected_bytes: int | None) -> None:
    assert job_records.read_input_bytes({"Environment": environment}) == expected_bytes
    assert job_records.read_input_bytes({}) is None
