"""Test the stream of UTF-8 that pyarrow reads."""

from __future__ import annotations

import io

import pyarrow as pa

from pipelines.ingestion.sources.files.text_stream import Utf8Stream

TEXT = "é" * 1000


def test_read_returns_at_most_size_bytes() -> None:
    stream = Utf8Stream(io.BytesIO(TEXT.encode("latin-1")), "file", "latin-1", 10)
    pieces = list(iter(lambda: stream.read(7), b""))
    assert max(map(len, pieces)) == 7, "pyarrow copies all bytes that it gets, also beyond the end of its buffer"
    assert b"".join(pieces).decode() == TEXT
    assert stream.tail.decode() == TEXT


def test_pyarrow_fills_only_its_buffer() -> None:
    file = pa.PythonFile(Utf8Stream(io.BytesIO(TEXT.encode("latin-1")), "file", "latin-1", 0), mode="r")
    assert file.readinto(bytearray(10)) == 10
