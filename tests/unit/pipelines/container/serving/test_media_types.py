"""Test which content type of an answer the header Accept chooses."""

from __future__ import annotations

import pytest

from pipelines.container.serving.media_types import choose_type
from pipelines.container.serving.tables import JSON, LINES, BadRequest


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", JSON),
        (" , ", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (JSON, JSON),
        ("Application/JSON; charset=utf-8", JSON),
        ("application/json, */*", JSON),
        ("text/html, application/*;q=0.5", JSON),
        (LINES, LINES),
        (f"{LINES}; charset=utf-8", LINES),
        (f"{LINES}, */*", LINES),
        (f"{JSON}, {LINES}", JSON),
        (f"{LINES}, {JSON}", LINES),
        (f"{JSON};q=0.5, {LINES}", LINES),
        (f"{JSON}; q=0, */*", LINES),
        (f"{LINES};q=0.1, application/*;q=0.9", JSON),
        (f"{JSON};q=wrong", JSON),
        (f"{JSON};q=nan, {LINES};q=0.9", JSON),
    ],
)
def test_the_preferred_type_is_chosen(accept: str, media_type: str) -> None:
    assert choose_type(accept, JSON, LINES) == media_type


@pytest.mark.parametrize(
    "accept", ["text/csv", "text/*", "application/jsonl", "application/json/x", f"{JSON};q=0, {LINES};q=0.0", "*/*;q=0"]
)
def test_another_type_is_refused(accept: str) -> None:
    with pytest.raises(BadRequest, match="is not supported: accept application/json or application/jsonlines") as error:
        choose_type(accept, JSON, LINES)
    assert error.value.status_code == 406


def test_a_type_that_is_not_offered_is_refused_in_a_short_message() -> None:
    assert choose_type(f"{LINES}, {JSON};q=0.1", JSON) == JSON
    with pytest.raises(BadRequest) as error:
        choose_type(LINES + "x" * 10_000, JSON)
    assert len(str(error.value)) < 200
