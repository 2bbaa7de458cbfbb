"""Compute the size of the batches of an Arrow stream after decompression, without decompressing them.

A stream of some kilobytes can expand to gigabytes, and pyarrow decompresses a whole batch at once. So the sizes are
read first: each compressed buffer begins with its size after decompression. Arrow's metadata, which are flatbuffers
(Arrow's format/Message.fbs), say where the buffers are.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

DICTIONARY_BATCH, RECORD_BATCH = 2, 3
"""Types of messages: with the values of a dictionary, and with rows."""
TYPE, HEADER = 1, 2
"""Numbers of the fields of a message: its type, and the description of its content."""
DICTIONARY_DATA = 1
"""Number of the field of a dictionary batch that has the values, as a record batch."""
BUFFERS, COMPRESSION = 2, 3
"""Numbers of the fields of a record batch: where its buffers are, and how they are compressed."""


def sum_expanded_bytes(stream: bytes) -> int:
    """Return the number of bytes that all buffers of an Arrow stream have after decompression.

    Raises:
        ValueError: the stream is not an Arrow stream, or it is damaged.
    """
    try:
        messages = iter(pa.ipc.MessageReader.open_stream(stream))
        return sum(_sum_message_bytes(message.metadata, message.body) for message in messages)
    except struct.error as error:
        raise ValueError(f"its metadata is damaged: {error}") from None


def _sum_message_bytes(metadata: Any, body: Any) -> int:
    """Return the number of bytes that the buffers of a message have after decompression."""
    # `message`, `batch` and `buffers` are positions of flatbuffers' tables and vectors in the metadata.
    message = _resolve_offset(metadata, 0)
    message_type = bytes(metadata)[_find_field(metadata, message, TYPE)]
    if body is None or message_type not in (DICTIONARY_BATCH, RECORD_BATCH):
        return 0
    batch = _resolve_offset(metadata, _find_field(metadata, message, HEADER))
    if message_type == DICTIONARY_BATCH:
        batch = _resolve_offset(metadata, _find_field(metadata, batch, DICTIONARY_DATA))
    if not _find_field(metadata, batch, COMPRESSION):
        return int(body.size)
    buffers = _resolve_offset(metadata, _find_field(metadata, batch, BUFFERS))
    # A vector is its length (4 bytes), then its entries: here the offset and the length of each buffer, 8 bytes each.
    (count,) = struct.unpack_from("<I", metadata, buffers)
    locations = struct.iter_unpack("<qq", bytes(metadata)[buffers + 4 : buffers + 4 + 16 * count])
    return sum(_read_expanded_size(body, offset, length) for offset, length in locations)


def _read_expanded_size(body: Any, offset: int, length: int) -> int:
    """Return the size of a buffer after decompression, bytes; at least its length in the message.

    The first 8 bytes of the buffer are the size. They are -1 if the buffer is not compressed.
    """
    if length == 0:
        return 0
    if offset < 0:
        raise ValueError("a buffer is outside of its message")
    return max(int(struct.unpack_from("<q", body, offset)[0]), length)


def _find_field(metadata: Any, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffer's table; 0 if the table lacks it."""
    # A vtable begins with two numbers of 2 bytes; the first one is its size. Then come the offsets of the fields.
    vtable = table - int(struct.unpack_from("<i", metadata, table)[0])
    if vtable < 0 or struct.unpack_from("<H", metadata, vtable)[0] <= 4 + 2 * number:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, vtable + 4 + 2 * number)
    return table + int(offset) if offset else 0


def _resolve_offset(metadata: Any, position: int) -> int:
    """Return the position to which a relative offset at `position` points."""
    return position + int(struct.unpack_from("<I", metadata, position)[0])
