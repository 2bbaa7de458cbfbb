"""Convert the entries of a shard's samples to values and back, by the endings of their names. Nothing is unpickled.

An entry is one file of a sample: the shard has `a.jpg` and `a.cls` for the entries `jpg` and `cls` of the sample `a`.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from pipelines.errors import DataError

KEY = "__key__"
"""Name of a sample's key among its values, as in WebDataset."""
PICKLES = ("joblib", "pickle", "pkl", "pt", "pth", "pyd")
"""Endings of entries that are, or may be, pickles. WebDataset 1.0.2 unpickles pkl, pickle and pyd."""
FORMAT_1 = b"\x93NUMPY\x01\x00"
"""Start of an array in numpy's format 1.0."""


@lru_cache(256)
def _parse_header(header: bytes) -> tuple[tuple[int, ...], bool, Any]:
    """Parse the header of an array in format 1.0.

    The results are cached: numpy needs longer for a header than for the data.
    """
    buffer = io.BytesIO(header)
    np.lib.format.read_magic(buffer)
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
    return shape, is_fortran, dtype


def _load_array(content: bytes) -> Any:
    if content.startswith(FORMAT_1):
        # Two bytes with the length of the header follow.
        start = len(FORMAT_1) + 2 + int.from_bytes(content[len(FORMAT_1) : len(FORMAT_1) + 2], "little")
        shape, is_fortran, dtype = _parse_header(content[:start])
        if not is_fortran and not dtype.hasobject:
            return np.frombuffer(content, dtype, math.prod(shape), start).reshape(shape).copy()
    return np.load(io.BytesIO(content), allow_pickle=False)


def _save_array(value: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(value), allow_pickle=False)
    return buffer.getvalue()


DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "npy": _load_array,
    "json": json.loads,
    "txt": bytes.decode,
    "cls": int,
}
"""Maps each ending to the function that reads an entry. Any other entry stays bytes."""
ENCODERS: Mapping[str, Callable[[Any], bytes]] = {
    "npy": _save_array,
    "json": lambda value: json.dumps(value).encode(),
    "txt": str.encode,
    "cls": lambda value: str(int(value)).encode(),
}
"""Maps each ending to the function that writes an entry. For any other ending the value is bytes."""


def split_name(name: str) -> tuple[str, str]:
    """Split the name of a file in a shard into the sample's key and the entry's name, by WebDataset's rule.

    The entry's name begins after the first dot of the last part of the path: `a/b.seg.png` is entry `seg.png` of `a/b`.
    """
    folder, slash, base = name.rpartition("/")
    key, _, entry = base.partition(".")
    return f"{folder}{slash}{key}", entry


def check_entry(shard: str, name: str) -> None:
    """Check that an entry is not a pickle.

    Raises:
        DataError: the ending of the entry's name is one of a pickle. A retry cannot help.
    """
    if _get_ending(name) in PICKLES:
        raise DataError(
            f"{shard} has the entry {name}, a pickle, which can run code when it is read.",
            "Write its values as .npy, .json, .txt or .cls.",
        )


def decode_sample(shard: str, key: str, entries: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the values of a sample's entries, with its key.

    Raises:
        DataError: an entry is damaged, or is a pickle. A retry cannot help.
    """
    values: dict[str, Any] = {KEY: key}
    for name, content in entries.items():
        check_entry(shard, name)
        decode = DECODERS.get(_get_ending(name))
        try:
            values[name] = decode(content) if decode else content
        except (ValueError, EOFError) as error:
            raise DataError(f"the entry {name} of the sample {key} in {shard} cannot be read: {error}.") from None
    return values


def encode_entry(key: str, name: str, value: Any) -> bytes:
    """Return the content of an entry. A value of type bytes is the content itself, whatever the ending.

    Raises:
        DataError: the ending of the entry's name is one of a pickle, or the value does not suit the ending. A retry
            cannot help.
    """
    check_entry("a new shard", name)
    encode = ENCODERS.get(_get_ending(name))
    try:
        content = encode(value) if encode and not isinstance(value, bytes) else value
    except (TypeError, ValueError) as error:
        raise DataError(f"the entry {name} of the sample {key} cannot be written: {error}.") from None
    if not isinstance(content, bytes):
        raise DataError(
            f"the entry {name} of the sample {key} is of type {type(value).__name__}, not bytes.",
            f"Write bytes, or end the entry's name with one of {', '.join(ENCODERS)}.",
        )
    return content


def _get_ending(name: str) -> str:
    return name.rpartition(".")[2].lower()
