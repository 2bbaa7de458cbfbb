"""Test that captured requests do not fill the memory."""

from pathlib import Path

import pytest

from drydock.endpoints import capture as module
from drydock.endpoints.capture import DataCapture
from drydock.endpoints.instances.connection_pool import ModelResponse
from drydock.endpoints.invocation import Invocation
from drydock.resources import Owner
from drydock.settings import Settings

CONFIG = {"EnableCapture": True, "InitialSamplingPercentage": 100, "DestinationS3Uri": "s3://b/c"}
CONFIG |= {"CaptureOptions": [{"CaptureMode": "InputAndOutput"}]}
REQUEST, ANSWER = Invocation(b"x" * 1_000, {"Content-Type": "text/csv"}), ModelResponse(200, b"1", "text/csv")


@pytest.mark.parametrize(("limit", "lines"), [(10_000, 7), (10_000_000, 50)])
def test_lines_above_the_limit_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, lines: int
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_CHARS", limit)
    capture = DataCapture(Settings(tmp_path, "http://127.0.0.1:1", 1, 1))
    for _ in range(50):
        capture.record(Owner("1", "r"), "e", "v", CONFIG, REQUEST, ANSWER)
    assert sum(map(len, capture._lines.values())) == lines
