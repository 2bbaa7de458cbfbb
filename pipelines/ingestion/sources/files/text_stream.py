"""Read a file in any text encoding as a stream of UTF-8."""

from __future__ import annotations

import codecs
from typing import Any

from pipelines.errors import DataError, SpecError

PIECE_BYTES = 8 * 1024 * 1024
"""Bytes that are read at a time, if the caller gives no number."""
TAIL_BYTES = 4096
"""Size of `Utf8Stream.tail`."""


class Utf8Stream:
    """Reads text in any encoding as bytes of UTF-8.

    `head` holds the first bytes, even before `read` is called. `tail` holds the last bytes, and `quote_count` the
    number of double quotes, of what was read from the file so far.

    Args:
        stream: file of bytes in the encoding.
        origin: name of the file, for messages.
        encoding: name of the encoding in Python.
        head_bytes: approximate size of `head`. A smaller file is in `head` completely.
        caller_checks_utf8: whether the caller checks that UTF-8 is valid. If true, a file in UTF-8 is not decoded.

    Raises:
        SpecError: there is no such encoding. A retry cannot help.
        DataError: the bytes are not in the encoding. `read` raises it, too. A retry cannot help.
    """

    def __init__(
        self, stream: Any, origin: str, encoding: str, head_bytes: int, caller_checks_utf8: bool = False
    ) -> None:
        try:
            self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        except LookupError:
            raise SpecError(f"there is no encoding {encoding!r}.", "Use utf-8, latin-1, cp1252, ...") from None
        self._stream, self._origin, self._encoding = stream, origin, encoding
        self._passes_through = caller_checks_utf8 and codecs.lookup(encoding).name == "utf-8"
        self._position, self.closed, self.tail, self.quote_count = 0, False, b"", 0
        self.head = self._read_head(head_bytes)
        self._unread = self.head

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, or any number if `size` is negative; no bytes at the end of the file."""
        if not self._unread:
            self._unread = self._read_piece(size if size > 0 else PIECE_BYTES)
            self.tail = (self.tail + self._unread)[-TAIL_BYTES:]
            self.quote_count += self._unread.count(b'"')
        # `_unread` may be longer than `size`, since UTF-8 can need more bytes than the file's encoding. If pyarrow 25
        # reads into a buffer of its own, it copies all returned bytes, even beyond the end of the buffer.
        end = len(self._unread) if size < 0 else size
        piece, self._unread = self._unread[:end], self._unread[end:]
        return piece

    def readable(self) -> bool:
        """Return True; pyarrow calls this method on every file."""
        return True

    def close(self) -> None:
        """Mark this stream as closed; the file that it reads stays open."""
        self.closed = True

    def _read_head(self, head_bytes: int) -> bytes:
        pieces, size = [], 0
        while size < head_bytes and (piece := self._read_piece(head_bytes - size)):
            pieces.append(piece)
            size += len(piece)
        head = b"".join(pieces).removeprefix(codecs.BOM_UTF8)
        self.tail, self.quote_count = head[-TAIL_BYTES:], head.count(b'"')
        return head

    def _read_piece(self, size: int) -> bytes:
        while raw_bytes := bytes(self._stream.read(size)):
            self._check_not_utf16(raw_bytes)
            text = raw_bytes if self._passes_through else self._decode(raw_bytes)
            self._position += len(raw_bytes)
            if text:
                return text
        return b"" if self._passes_through else self._decode(b"", is_final=True)

    def _check_not_utf16(self, raw_bytes: bytes) -> None:
        is_utf16 = not self._position and raw_bytes[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        if is_utf16 and "16" not in self._encoding:
            raise DataError(
                f"{self._origin} is not {self._encoding}: it begins with the byte order mark of UTF-16.",
                'Set encoding="utf-16".',
            )

    def _decode(self, raw_bytes: bytes, is_final: bool = False) -> bytes:
        try:
            return self._decoder.decode(raw_bytes, is_final).encode()
        except UnicodeDecodeError as error:
            byte = error.object[error.start : error.start + 1].hex()
            raise DataError(
                f"{self._origin} is not {self._encoding}: byte 0x{byte} near byte {self._position + error.start}.",
                "Set encoding=, perhaps to latin-1 or cp1252.",
            ) from None
