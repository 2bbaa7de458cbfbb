"""Build and read blocks of lines: many lines of a job's log, compressed, in one row of the store.

A script can print millions of lines in a second. A row for each of them would take longer than the script.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

# CloudWatch's limit for one event is 256 KiB. A line that is longer than a block becomes several events.
BLOCK_MAX_BYTES = 60_000
# zlib's fastest level.
_COMPRESSION_LEVEL = 1
# In UTF-8, the first two bits of a byte are 10 if it is not the first byte of a character.
_CONTINUATION_BITS, _CONTINUATION_BYTE = 0xC0, 0x80


class LineBlock(NamedTuple):
    """Lines that were printed at about the same time.

    Attributes:
        timestamp: When they were printed, in milliseconds since 1970.
        line_count: The number of lines, at least 1.
        byte_count: The number of bytes before compression, without the newline of the last line.
        content: The lines, compressed.
    """

    timestamp: int
    line_count: int
    byte_count: int
    content: bytes


def build_blocks(data: bytes, timestamp: int) -> list[LineBlock]:
    """Return the blocks of a part of a log.

    Args:
        data: Whole lines, or a piece of a long line; not empty. The last newline ends the last line.
        timestamp: When the lines were printed, in milliseconds since 1970.
    """
    return [
        LineBlock(timestamp, part.count(b"\n") + 1, len(part), zlib.compress(part, _COMPRESSION_LEVEL))
        for part in _split_into_parts(data)
    ]


def read_lines(content: bytes) -> list[str]:
    """Return the lines of a block, without carriage returns at their ends.

    Bytes that are not UTF-8 are replaced by U+FFFD. An empty line becomes a space.
    """
    # CloudWatch Logs has no empty events.
    text = zlib.decompress(content).decode(errors="replace")
    return [line.rstrip("\r") or " " for line in text.split("\n")]


def find_piece_end(data: bytes, stop: int) -> int:
    """Return where to cut bytes so that no UTF-8 character is cut in two: at `stop`, or up to 3 bytes before it."""
    end = stop
    while stop - end < 4 and end < len(data) and data[end] & _CONTINUATION_BITS == _CONTINUATION_BYTE:
        end -= 1
    return end if stop - end < 4 else stop


def _split_into_parts(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        stop = min(start + BLOCK_MAX_BYTES, len(data))
        if stop < len(data):
            newline = data.rfind(b"\n", start, stop + 1)
            stop = newline + 1 if newline >= start else find_piece_end(data, stop)
        yield data[start:stop].removesuffix(b"\n")
        start = stop
