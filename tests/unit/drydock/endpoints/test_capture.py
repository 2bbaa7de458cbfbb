"""Test how captured requests are written, and that they do not fill the memory."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from drydock.endpoints import capture as module
from drydock.endpoints.capture import DataCapture, build_event
from drydock.endpoints.instances.connection_pool import ModelResponse
from drydock.endpoints.invocation import Invocation
from drydock.resources import Owner
from drydock.settings import Settings

TYPES = {"JsonContentTypes": ["application/json", "application/jsonlines"], "CsvContentTypes": ["text/csv"]}
CONFIG = {"EnableCapture": True, "InitialSamplingPercentage": 100, "DestinationS3Uri": "s3://b/c"}
CONFIG |= {"CaptureOptions": [{"CaptureMode": "InputAndOutput"}], "CaptureContentTypeHeader": TYPES}
REQUEST, ANSWER = Invocation(b"x" * 1_000, {"Content-Type": "text/csv"}), ModelResponse(200, b"1", "text/csv")
NOW = datetime(2026, 3, 1, 9, 59, 30, 999_000, tzinfo=UTC)


@pytest.mark.parametrize(("limit", "lines"), [(10_000, 7), (10_000_000, 50)])
def test_lines_above_the_limit_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, lines: int
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_CHARS", limit)
    capture = DataCapture(Settings(tmp_path, "http://127.0.0.1:1", 1, 1))
    for _ in range(50):
        capture.record(Owner("1", "r"), "e", "v", CONFIG, REQUEST, ANSWER, NOW)
    assert sum(map(len, capture._lines.values())) == lines


@pytest.mark.parametrize(("limit", "lost"), [(10_000, "43 are lost"), (10_000_000, "50 are lost")])
def test_lost_lines_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: int, lost: str
) -> None:
    """The first 43 lines have no space, or the last write of all 50 lines, of two variants, fails."""
    monkeypatch.setattr(module, "MAX_WAITING_CHARS", limit)

    def write(capture: DataCapture, target: module.Target, lines: list[str]) -> None:
        if limit != 10_000:
            capture._add(target, lines)

    monkeypatch.setattr(DataCapture, "_write", write)
    capture = DataCapture(Settings(tmp_path, "http://127.0.0.1:1", 1, 1))
    for number in range(50):
        variant = "v" if limit == 10_000 else f"v{number % 2}"
        capture.record(Owner("1", "r"), "e", variant, CONFIG, REQUEST, ANSWER, NOW)
    capture.start()
    capture.close()
    assert [record.message for record in caplog.records] == [
        f"captured requests of e: {lost}, as they could not be written to S3"
    ]


def read_parts(body: bytes, content_type: str, **config: Any) -> list[tuple[str, str]]:
    """Return encoding and data of a captured request, and those of an answer with the same body."""
    options = {"CaptureOptions": CONFIG["CaptureOptions"], **config}
    answer = ModelResponse(200, body, content_type)
    data = build_event(options, Invocation(body, {"Content-Type": content_type}), answer, NOW)["captureData"]
    return [(data[name]["encoding"], data[name]["data"]) for name in ("endpointInput", "endpointOutput")]


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("application/json", "JSON"),
        ("application/json; charset=utf-8", "JSON"),
        ("application/jsonlines", "JSON"),
        ("text/csv", "CSV"),
        ("application/x-parquet", "BASE64"),
        ("", "BASE64"),
    ],
)
def test_only_bodies_of_the_named_content_types_are_text(content_type: str, encoding: str) -> None:
    """botocore's text on CaptureContentTypeHeader: without headers, SageMaker encodes the data as base64."""
    text, encoded = '{"a": 1}', base64.b64encode(b'{"a": 1}').decode()
    expected_data = encoded if encoding == "BASE64" else text
    assert read_parts(text.encode(), content_type, CaptureContentTypeHeader=TYPES) == [(encoding, expected_data)] * 2
    for header in ({}, {"CaptureContentTypeHeader": {"CsvContentTypes": ["text/plain"]}}):
        assert read_parts(text.encode(), content_type, **header) == [("BASE64", encoded)] * 2
    assert read_parts(b"\xff", content_type, CaptureContentTypeHeader=TYPES) == [("BASE64", "/w==")] * 2


def test_the_time_of_inference_is_when_the_request_came(tmp_path: Path) -> None:
    capture = DataCapture(Settings(tmp_path, "http://127.0.0.1:1", 1, 1))
    for moment in (NOW, NOW - timedelta(minutes=1)):
        capture.record(Owner("1", "r"), "e", "v", CONFIG, REQUEST, ANSWER, moment)
    (lines,) = capture._lines.values()
    times = [json.loads(line)["eventMetadata"]["inferenceTime"] for line in lines]
    assert times == ["2026-03-01T09:59:30Z", "2026-03-01T09:58:30Z"]
