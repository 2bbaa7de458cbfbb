"""Files by address: which days there are, and their bytes, unpacked, a piece at a time."""

from __future__ import annotations

import codecs
import datetime as dt
import fnmatch
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec.core
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError
from pipelines.ingestion.sources.addresses import on_web, redacted
from pipelines.system.duckdb_session import spill_folder
from pipelines.system.error_translation import is_disk_full
from pipelines.window import Days

DATE = re.compile(r"\{date(?::([^{}]*))?\}")
"""What stands for the day in an address: {date} or {date:%Y/%m/%d}."""
BLOCK = 8 * 1024 * 1024
"""Bytes asked of an object store at a time."""
CODECS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def of_day(pattern: str, day: dt.date) -> str:
    """The address of a day's file, or of its files where there is a * in it."""
    return DATE.sub(lambda found: day.strftime(found[1] or "%Y-%m-%d"), pattern)


def days_there(pattern: str, days: Days) -> list[dt.date]:
    """Those of the days that have a file.

    Raises:
        ServiceError: the store does not answer. A retry can help.
    """
    if on_web(pattern):
        from pipelines.ingestion.sources.web import Web

        return [day for day in days if Web().has(of_day(pattern, day))]
    every = DATE.sub(lambda found: re.sub(r"%-?[a-zA-Z]", "*", found[1] or "*"), pattern)
    names = _listed(every)
    return [day for day in days if fnmatch.filter(names, _path(of_day(pattern, day)))]


def files_of(address: str) -> list[str]:
    """The addresses that a * in the address stands for, sorted; the address itself where there is none.

    Raises:
        DataError: there is no such file.
    """
    if "*" not in address:
        return [address]
    if on_web(address):
        raise SpecError(f"{redacted(address)}: a web server lists no files.", "Name one file a day.")
    names = _listed(address)
    if not names:
        raise DataError(f"there is no {redacted(address)}.")
    with telling(redacted(address)):
        system, _ = fsspec.core.url_to_fs(address)
        return [str(system.unstrip_protocol(name)) for name in names]


@contextmanager
def opened(address: str, seeking: bool) -> Iterator[Any]:
    """The bytes of a file. From the web it is whole before it is opened.

    Args:
        address: a path or URL.
        seeking: whether it is read here and there, and not from end to end: then it is brought to this machine first.

    Raises:
        DataError: there is no such file.
        SpecError: it may not be read.
        ServiceError: the store failed. A retry can help.
    """
    if on_web(address):
        from pipelines.ingestion.sources.web import Web

        with spill_folder() as folder:
            Web().download(address, folder / "file")
            with (folder / "file").open("rb") as file:
                yield file
        return
    system, path = fsspec.core.url_to_fs(address)
    if isinstance(system, LocalFileSystem):
        with Path(path).open("rb") as file:
            yield file
        return
    with system.open(path, "rb", block_size=BLOCK, cache_type="readahead") as file:
        if not seeking:
            yield file
            return
        with spill_folder() as folder, (folder / "file").open("w+b") as copy:
            shutil.copyfileobj(file, copy, BLOCK)
            yield copy


@contextmanager
def unpacked(file: Any, name: str) -> Iterator[Any]:
    """The content of a .gz, .zst or .zip with one file in it; of any other file, itself."""
    suffix = Path(name).suffix.lower()
    if suffix in CODECS:
        with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), CODECS[suffix]) as content:
            yield content
    elif suffix == ".zip":
        with zipfile.ZipFile(file) as archive:
            names = [one for one in archive.namelist() if not one.endswith("/") and not one.startswith("__MACOSX")]
            if len(names) != 1:
                raise DataError(f"{name} has {len(names)} files in it: {', '.join(names[:5])}.", "One is wanted.")
            with _member(archive, names[0], name) as content:
                yield content
    else:
        yield file


@contextmanager
def telling(place: str) -> Iterator[None]:
    """What goes wrong inside is told of the place, and as what a retry can help or cannot."""
    try:
        yield
    except LeewayError:
        raise
    except FileNotFoundError:
        raise DataError(f"there is no {place}.") from None
    except PermissionError:
        raise SpecError(f"{place} is refused.", "Are the credentials right, and in the environment?") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{place} is damaged, or only half there: {error}.") from None
    except pa.ArrowException as error:
        raise DataError(f"{place}: {error}.") from None
    except OSError as error:
        if is_disk_full(error):
            raise
        raise _of_system(error, place) from None
    except Exception as error:
        known = _of_client(error, place)
        if known is None:
            raise
        raise known from None


class Text:
    """A stream of UTF-8, made of text in any encoding: `read` gives bytes, and its first ones can be seen before.

    Raises:
        DataError: the bytes are not in the encoding.
    """

    def __init__(self, stream: Any, place: str, encoding: str, ahead: int, trusted: bool = False) -> None:
        try:
            self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        except LookupError:
            raise SpecError(f"there is no encoding {encoding!r}.", "Wanted: utf-8, latin-1, cp1252, ...") from None
        self._stream, self._place, self._encoding = stream, place, encoding
        # Bytes that the reader checks by itself need no second look.
        self._direct = trusted and codecs.lookup(encoding).name == "utf-8"
        self._taken, self.closed, self.tail = 0, False, b""
        self.head = self._gathered(ahead)
        self._left = self.head

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; none at the end."""
        if self._left:
            end = len(self._left) if size < 0 else size
            piece, self._left = self._left[:end], self._left[end:]
            return piece
        piece = self._piece(size if size > 0 else BLOCK)
        if piece:
            self.tail = (self.tail + piece)[-4096:]
        return piece

    def readable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Nothing is held."""
        self.closed = True

    def _gathered(self, ahead: int) -> bytes:
        pieces, size = [], 0
        while size < ahead and (piece := self._piece(ahead - size)):
            pieces.append(piece)
            size += len(piece)
        head = b"".join(pieces).removeprefix(codecs.BOM_UTF8)
        self.tail = head[-4096:]
        return head

    def _piece(self, size: int) -> bytes:
        while raw := bytes(self._stream.read(size)):
            self._demand_plain(raw)
            text = raw if self._direct else self._decoded(raw)
            self._taken += len(raw)
            if text:
                return text
        return b"" if self._direct else self._decoded(b"", final=True)

    def _demand_plain(self, raw: bytes) -> None:
        if not self._taken and raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and "16" not in self._encoding:
            raise DataError(f"{self._place} is not {self._encoding}: it begins as UTF-16 does.", 'encoding="utf-16"?')

    def _decoded(self, raw: bytes, final: bool = False) -> bytes:
        try:
            return self._decoder.decode(raw, final).encode()
        except UnicodeDecodeError as error:
            wrong = error.object[error.start : error.start + 1].hex()
            raise DataError(
                f"{self._place} is not {self._encoding}: byte 0x{wrong} near byte {self._taken + error.start}.",
                "Say encoding=: latin-1 or cp1252, perhaps.",
            ) from None


def _member(archive: zipfile.ZipFile, member: str, name: str) -> Any:
    try:
        return archive.open(member)
    except (RuntimeError, NotImplementedError) as error:  # a password, or a way of packing that Python has not
        raise DataError(f"{name} cannot be unpacked: {error}.") from None


def _path(address: str) -> str:
    return str(fsspec.core.url_to_fs(address)[1])


def _listed(address: str) -> list[str]:
    with telling(redacted(address)):
        system, path = fsspec.core.url_to_fs(address)
        system.invalidate_cache()
        return sorted(str(name) for name in system.glob(path))


def _of_system(error: OSError, place: str) -> LeewayError:
    if error.errno is None and not isinstance(error, (TimeoutError, ConnectionError)):
        # pyarrow's, of a stream that ends early or a wrong checksum.
        return DataError(f"{place} is damaged, or only half there: {error}.")
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        return DataError(f"{place} is not a file.")
    return ServiceError(f"{place} cannot be read now: {error.strerror or type(error).__name__}.", "Run it again.")


def _of_client(error: Exception, place: str) -> LeewayError | None:
    """What S3's client raises, which is no OSError."""
    if not type(error).__module__.startswith(("botocore", "aiobotocore", "aiohttp")):
        return None
    if "Credential" in type(error).__name__ or "Profile" in type(error).__name__:
        return SpecError(f"{place}: there are no AWS credentials.", "Set AWS_ACCESS_KEY_ID and friends.")
    return ServiceError(f"{place} does not answer ({type(error).__name__}).", "Is AWS_ENDPOINT_URL right?")
