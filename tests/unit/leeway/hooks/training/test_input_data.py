"""Test that the size of the data never fails a training task; drydock's objects are listed in the integration tests."""

import logging
from typing import Any, ClassVar

import pytest
from botocore.exceptions import ClientError
from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.training import input_data
from leeway.hooks.training.input_data import build_size_variables, measure_input_bytes

LOG = logging.getLogger("leeway")
CONNECTION = AwsConnection("aws_default", None, None, {"read_timeout": 900, "user_agent_extra": "x"})
REQUEST = {
    "InputDataConfig": [
        {
            "ChannelName": "train",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/a/"}},
        }
    ]
}


class FakeHook:
    """A hook whose client lists one object of 100 bytes, or raises an error."""

    error: Exception | None = None
    configs: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, config: dict[str, Any], **_: Any) -> None:
        self.configs.append(config)

    def get_conn(self) -> Any:
        return self

    def get_paginator(self, _: str) -> Any:
        return self

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        if self.error:
            raise self.error
        return [{"Contents": [{"Key": "a/1", "Size": 100}]}]


@pytest.fixture(autouse=True)
def hook(monkeypatch: pytest.MonkeyPatch) -> type[FakeHook]:
    """Replace the hook of S3."""
    monkeypatch.setattr(input_data, "S3Hook", FakeHook)
    monkeypatch.setattr(FakeHook, "error", None)
    monkeypatch.setattr(FakeHook, "configs", [])
    return FakeHook


def test_the_size_is_a_variable_of_the_job(hook: type[FakeHook]) -> None:
    assert build_size_variables(CONNECTION, REQUEST, LOG) == {"LEEWAY_INPUT_BYTES": "100"}
    assert hook.configs[0]["read_timeout"] == 20 and hook.configs[0]["user_agent_extra"] == "x"


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "AccessDenied", "Message": "no\nlisting"}}, "ListObjectsV2"),
        OSError("disk"),
        RuntimeError("x" * 10_000),
    ],
)
def test_an_error_is_one_line_in_the_log(
    hook: type[FakeHook], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(hook, "error", error)
    assert build_size_variables(CONNECTION, REQUEST, LOG) == {}
    (record,) = caplog.records
    assert "cannot be listed" in record.getMessage() and "\n" not in record.getMessage()
    assert len(record.getMessage()) < 450


def test_a_manifest_is_not_listed(hook: type[FakeHook], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert measure_input_bytes(CONNECTION, None, LOG) is None
    assert hook.configs == [] and "a manifest" in caplog.text
    assert measure_input_bytes(CONNECTION, {"train": "s3://b/a/"}, LOG) == 100
