"""Read a sample of files, and infer their format, delimiter, encoding and days."""

from __future__ import annotations

import codecs
import csv as python_csv
import datetime as dt
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
import pyarrow.parquet as pq

from pipelines.errors import DataError
from pipelines.ingestion.sources.addresses import redact
from pipelines.ingestion.sources.files.storage import list_files, open_file, translate_errors, unpack
from pipelines.lake import DATE_COLUMN
from pipelines.scaffold.decimals import find_decimal_point
from pipelines.scaffold.sampling.sample import MAX_ROWS, Kind, Sample

FORMATS: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""Maps the ending of a file's name to the format of the file."""
COMPRESSION_SUFFIXES = (".gz", ".zst", ".zip")
DAY_IN_NAME = ((re.compile(r"\d{4}-\d{2}-\d{2}"), "%Y-%m-%d"), (re.compile(r"(?<!\d)\d{8}(?!\d)"), "%Y%m%d"))
"""Patterns and formats of a day in the name of a file."""
MAX_BYTES = 100_000_000
"""Largest number of bytes that a sample reads of each CSV or JSON file, after decompression."""
DELIMITERS = ",;\t|"


def find_format(address: str) -> Kind | None:
    """Return the format of files by the ending of their address; None if the address does not end like a file's."""
    name = address.partition("?")[0].lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return FORMATS.get(Path(name).suffix) if "." in Path(name).name else None


def read_files(source: str) -> Sample:
    """Read a file, files that an address with * names, or the files of a folder.

    Raises:
        DataError: there is no file, or it cannot be read. A retry cannot help.
        SpecError: access is refused, or a web address has a *. A retry cannot help.
        ServiceError: the store failed. A retry can help.
    """
    is_local = "://" not in source
    path = Path(source).expanduser().resolve() if is_local else None
    addresses = _list_folder(path) if path and path.is_dir() else list_files(str(path or source))
    kind = find_format(addresses[0])
    assert kind
    days, pattern = _find_days(addresses)
    url = pattern or _find_pattern(addresses, path, source)
    tables, options, is_complete = [], dict[str, Any](), True
    row_count = 0
    for address, day in zip(addresses, days, strict=True):
        if row_count >= MAX_ROWS:
            is_complete = False
            break
        table, options, is_whole = _read_file(address, kind)
        is_complete &= is_whole
        row_count += table.num_rows
        if pattern and DATE_COLUMN not in table.column_names:
            table = table.append_column(DATE_COLUMN, pa.array([day] * table.num_rows, pa.date32()))
        tables.append(table)
    try:
        all_rows = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"the files of {url} have different columns: {error}.", "Give files of one kind.") from None
    if kind == "csv":
        options["decimal_point"] = find_decimal_point(redact(url), all_rows)
    return Sample(kind, url, all_rows, has_files_by_day=bool(pattern), is_complete=is_complete, **options)


def _list_folder(folder: Path) -> list[str]:
    paths = sorted(str(path) for path in folder.iterdir() if path.is_file() and find_format(path.name))
    kinds = {find_format(path) for path in paths}
    if len(kinds) != 1:
        problem = "has no file" if not paths else f"has files of several formats ({', '.join(sorted(map(str, kinds)))})"
        raise DataError(f"{folder} {problem}.", "Put files of one format there: CSV, JSON lines or Parquet.")
    return paths


def _find_days(addresses: Sequence[str]) -> tuple[list[dt.date | None], str]:
    """Return the day in the name of each file, and the address of all files with {date} in place of the day.

    If there is only one file, if a name has no day, or if the names differ in more than the day, the days are None, and
    the address is empty.
    """
    for pattern, format in DAY_IN_NAME:
        matches = [pattern.search(Path(address).name) for address in addresses]
        days = [_parse_day(match[0], format) if match else None for match in matches]
        names = {
            pattern.sub("{date}" if format == "%Y-%m-%d" else f"{{date:{format}}}", Path(address).name, count=1)
            for address in addresses
        }
        if all(days) and len(names) == 1 and len(addresses) > 1:
            folder = addresses[0].rpartition("/")[0]
            return days, f"{folder}/{names.pop()}"
    return [None] * len(addresses), ""


def _parse_day(text: str, format: str) -> dt.date | None:
    try:
        return dt.datetime.strptime(text, format).replace(tzinfo=dt.UTC).date()
    except ValueError:
        return None


def _find_pattern(addresses: Sequence[str], path: Path | None, source: str) -> str:
    """Return the address from which the source of the new dataset reads the files.

    It is that of the only file, the address with *, or FOLDER/*.ENDING.
    """
    if not path or not path.is_dir():
        return str(path or source)
    if len(addresses) == 1:
        return addresses[0]
    endings = {Path(address).name.partition(".")[2] for address in addresses}
    if len(endings) > 1:
        message = f"{path} has files with several endings: {', '.join(sorted(endings))}."
        raise DataError(message, "Keep only the files with one ending.")
    return f"{path}/*.{endings.pop()}"


def _read_file(address: str, kind: Kind) -> tuple[pa.Table, dict[str, Any], bool]:
    """Return the rows of a file, the options with which it is read, and whether it was read to its end."""
    origin = redact(address)
    needs_seek = kind == "parquet" or address.lower().endswith(".zip")
    with translate_errors(origin), open_file(address, needs_seek) as file, unpack(file, address) as content:
        if kind == "parquet":
            return _read_parquet(content)
        data = content.read(MAX_BYTES)
        is_whole = not content.read(1)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(f"{origin} is in the encoding UTF-16.", "Write it as UTF-8.")
    if not data.removeprefix(codecs.BOM_UTF8).strip():
        raise DataError(f"{origin} is empty.")
    if not is_whole:
        data = data[: data.rfind(b"\n") + 1]
    try:
        return (*(_read_csv(data) if kind == "csv" else _read_json(data)), is_whole)
    except (pa.ArrowException, UnicodeDecodeError, python_csv.Error) as error:
        raise DataError(f"{origin}: {str(error)[:300]}.", "Check that the file is complete and has a header.") from None


def _read_parquet(file: Any) -> tuple[pa.Table, dict[str, Any], bool]:
    """Return the rows, no options, and whether the file was read to its end."""
    with pq.ParquetFile(file) as parquet:
        batches, row_count = [], 0
        for batch in parquet.iter_batches():
            batches.append(batch)
            row_count += batch.num_rows
            if row_count >= MAX_ROWS:
                break
        table = pa.Table.from_batches(batches, parquet.schema_arrow.remove_metadata())
        return table, {}, row_count >= parquet.metadata.num_rows


def _read_csv(data: bytes) -> tuple[pa.Table, dict[str, Any]]:
    encoding = _find_encoding(data)
    text = data.decode(encoding).lstrip("\ufeff\r\n")
    delimiter = max(DELIMITERS, key=text[: text.find("\n")].count)
    names = next(python_csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    table = arrow_csv.read_csv(
        io.BytesIO(text.encode()),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    return table, {"delimiter": delimiter, "encoding": encoding, "has_final_newline": data.endswith(b"\n")}


def _find_encoding(data: bytes) -> str:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _read_json(data: bytes) -> tuple[pa.Table, dict[str, Any]]:
    data.decode("utf-8")  # it raises an error that `_read_file` translates if the text is not UTF-8
    return arrow_json.read_json(io.BytesIO(data)), {}
