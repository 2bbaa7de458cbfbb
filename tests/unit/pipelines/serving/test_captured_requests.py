"""Test what is read from captured requests and answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pipelines.container.serving.tables import JSON, LINES
from pipelines.serving.captured_requests import CapturedRequest, parse_line

LINE = '{"score": 0.25, "looked_up": {"wind": 3.5, "rain": null}}'


def read(answer: str, content_type: str, rows: Any = ({"x": 1}, {"x": 2})) -> CapturedRequest | None:
    """Return the request that a captured line with an answer has."""
    parts = {"endpointInput": (json.dumps(rows), JSON), "endpointOutput": (answer, content_type)}
    data = {
        name: {
            "observedContentType": kind,
            "data": base64.b64encode(text.encode()).decode(),
            "encoding": "BASE64",
        }
        for name, (text, kind) in parts.items()
    }
    metadata = {"eventId": "e", "inferenceTime": "2026-03-01T09:59:30Z"}
    return parse_line(json.dumps({"captureData": data, "eventMetadata": metadata}).encode())


def test_json_lines_have_the_scores_and_looked_up_values_of_the_json_answer() -> None:
    other = '{"score": 0.5, "looked_up": {"wind": null, "rain": 1.0}}'
    lines = read(f"{LINE}\n{other}", f"{LINES}; charset=utf-8")
    answer = {"scores": [0.25, 0.5], "looked_up": {"wind": [3.5, None], "rain": [None, 1.0]}}
    assert lines is not None and lines == read(json.dumps(answer), JSON)
    assert read("0.25\n0.5", LINES) == lines._replace(looked_up={})


@pytest.mark.parametrize(
    "second_line",
    [
        "",
        "0.5",
        "null",
        "{}",
        '{"score": 0.5}',
        '{"looked_up": {"wind": 1.0, "rain": 1.0}}',
        '{"score": 0.5, "looked_up": {"wind": 1.0}}',
        '{"score": 0.5, "looked_up": [1.0, 2.0]}',
        '{"score": 0.5, "looked_up": {"wind": NaN, "rain": 1.0}}',
    ],
)
def test_lines_without_the_values_of_each_row_cannot_be_read(second_line: str) -> None:
    assert read(f"{LINE}\n{second_line}", LINES) is None
