"""Read the requests and answers that an endpoint captured to S3, as SageMaker's DataCaptureConfig writes them."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pipelines.container.serving.tables import Table, parse_table
from pipelines.errors import DataError
from pipelines.window import Days

MAX_LINE_BYTES = 64 << 20
"""Longest line that is read, bytes: more than a request of 6 MB and its answer, both as base64. Longer lines are
skipped."""


class Capture(NamedTuple):
    """The variant whose captured requests are read, and where they are."""

    location: str
    """DestinationS3Uri of the endpoint's DataCaptureConfig, or a folder with a copy of it."""
    endpoint: str
    """EndpointName."""
    variant: str
    """VariantName."""


class UnparsedRequest(NamedTuple):
    """One captured request whose body was not parsed, with the scores in the endpoint's answer."""

    event_id: str
    requested_at: dt.datetime
    """In UTC, whole seconds."""
    inference_id: str
    """Id that the client gave the request; empty without one."""
    body: bytes
    content_type: str
    scores: list[Any]
    """Scores of the rows, as in the answer: numbers, objects by class or quantile, or lists."""
    looked_up: Mapping[str, list[Any]] = MappingProxyType({})
    """Maps each looked-up feature of raw rows to its value for each row, as in the answer."""
    latency_ms: float | None = None
    """Milliseconds that the scores took, as in the answer; None if it does not say."""


class CapturedRequest(NamedTuple):
    """One captured request with its parsed rows, and the scores in the endpoint's answer."""

    event_id: str
    requested_at: dt.datetime
    """In UTC, whole seconds."""
    inference_id: str
    """Id that the client gave the request; empty without one."""
    rows: Table
    """Rows of the request, by column name."""
    scores: list[Any]
    """Scores of the rows, as in the answer: numbers, or objects by class or quantile."""
    looked_up: Mapping[str, list[Any]] = MappingProxyType({})
    """Maps each looked-up feature of raw rows to its value for each row, as in the answer."""
    latency_ms: float | None = None
    """Milliseconds that the scores took, as in the answer; None if it does not say."""


def read_requests(capture: Capture, days: Days) -> Iterator[CapturedRequest | None]:
    """Read what was captured on the days (UTC), day by day.

    Yields:
        Each request; None for a captured line without rows by column name, or without a score for each row.

    Raises:
        DataError: the location is neither an s3:// URI nor a folder. A retry cannot help.
    """
    for day in days:
        yield from map(parse_line, read_lines(capture, f"{day:%Y/%m/%d}"))


def read_lines(capture: Capture, folder: str) -> Iterator[bytes]:
    """Read the lines that were captured in a folder of the variant: YYYY/MM/DD, or YYYY/MM/DD/HH (UTC).

    Raises:
        DataError: the location is neither an s3:// URI nor a folder. A retry cannot help.
    """
    list_lines = _list_s3_lines if capture.location.startswith("s3://") else _list_folder_lines
    return list_lines(capture.location.rstrip("/"), f"{capture.endpoint}/{capture.variant}/{folder}/")


def parse_line(line: bytes) -> CapturedRequest | None:
    """Parse a line of a capture file; return None if it lacks rows by column name, or a score for each row."""
    request = parse_without_rows(line)
    if request is None:
        return None
    try:
        rows = parse_table(request.body, request.content_type)
    except ValueError:  # clients may send anything, so this is no error here
        return None
    are_scores_valid = all(isinstance(score, int | float | dict) for score in request.scores)
    if not are_scores_valid or len(request.scores) != len(rows.rows):
        return None
    identity = (request.event_id, request.requested_at, request.inference_id)
    return CapturedRequest(*identity, rows, request.scores, request.looked_up, request.latency_ms)


def parse_without_rows(line: bytes) -> UnparsedRequest | None:
    """Parse a line of a capture file without the rows of its request; return None if its answer has no scores."""
    try:
        event = json.loads(line)
        metadata, data = event["eventMetadata"], event["captureData"]
        body, content_type = _read_part(data["endpointInput"])
        answer = _parse_answer(*_read_part(data["endpointOutput"]))
        requested_at = dt.datetime.fromisoformat(metadata["inferenceTime"]).astimezone(dt.UTC)
        event_id, inference_id = str(metadata["eventId"]), str(metadata.get("inferenceId", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # clients may send anything
        return None
    return UnparsedRequest(event_id, requested_at, inference_id, body, content_type, *answer)


def _read_part(part: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the body and the content type of a request or an answer."""
    data = str(part["data"])
    try:
        body = base64.b64decode(data, validate=True) if part["encoding"] == "BASE64" else data.encode()
    except binascii.Error as error:
        raise ValueError("not base64") from error
    return body, str(part["observedContentType"])


def _parse_answer(body: bytes, content_type: str) -> tuple[list[Any], Mapping[str, list[Any]], float | None]:
    """Return the scores, the looked-up features and the latency of an answer: JSON, or lines, which have no latency."""
    if content_type.partition(";")[0].strip() == "application/json":
        answer = _parse_json(body)
        looked_up = {name: list(values) for name, values in answer.get("looked_up", {}).items()}
        latency_ms = answer.get("latency_ms")
        return list(answer["scores"]), looked_up, None if latency_ms is None else float(latency_ms)
    lines = [_parse_json(line) for line in body.splitlines()]
    if not lines or not isinstance(lines[0], dict) or not isinstance(lines[0].get("looked_up"), dict):
        return lines, {}, None
    looked_up = {name: [line["looked_up"][name] for line in lines] for name in lines[0]["looked_up"]}
    return [line["score"] for line in lines], looked_up, None


def _parse_json(text: bytes) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    """Refuse NaN, Infinity and -Infinity, which Python's parser accepts."""
    raise ValueError(f"{name} is not a score")


def _list_folder_lines(location: str, folder: str) -> Iterator[bytes]:
    if not Path(location).is_dir():
        raise DataError(f"{location} is neither an s3:// URI nor a folder.", "Give the endpoint's DestinationS3Uri.")
    for path in sorted(Path(location, folder).rglob("*.jsonl")):
        with path.open("rb") as file:
            yield from _filter_lines(file)


def _list_s3_lines(location: str, folder: str) -> Iterator[bytes]:
    import boto3

    client, uri = boto3.client("s3"), urlsplit(location)
    prefix = f"{uri.path.strip('/')}/{folder}".lstrip("/")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=uri.netloc, Prefix=prefix):
        for item in page.get("Contents", ()):
            body = client.get_object(Bucket=uri.netloc, Key=item["Key"])["Body"]
            yield from _filter_lines(body.iter_lines(chunk_size=1 << 20))


def _filter_lines(lines: Any) -> Iterator[bytes]:
    """Yield the lines that are neither blank nor too long."""
    for line in lines:
        if line.strip() and len(line) <= MAX_LINE_BYTES:
            yield line
