"""Read a sample of a source by its address: files, a database or an HTTP API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources.addresses import is_http
from pipelines.scaffold.request import AskFunction, Request
from pipelines.scaffold.sampling import databases, files
from pipelines.scaffold.sampling.sample import Sample

MIN_ROWS = 100
"""Smallest number of rows in a sample."""


def read_sample(request: Request, ask: AskFunction) -> Sample:
    """Read a sample of the request's source.

    Raises:
        DataError: the source is not there or has too few rows, two columns have one name, or a name has a line break
            or a null character. A retry cannot help.
        SpecError: the source cannot be used, or an option is missing. A retry cannot help.
        ServiceError: the source does not answer. A retry can help.
    """
    source = request.source or ask("source", "the source of the rows is not given.", ())
    sample = _read(request, source, ask)
    if sample.table.num_rows < MIN_ROWS:
        message = f"{sample.origin} has {sample.table.num_rows} rows: fewer than {MIN_ROWS} are too few for a model."
        raise DataError(message, "Give a source with more rows.")
    _check_names(sample.origin, sample.table.column_names)
    return sample


def _read(request: Request, source: str, ask: AskFunction) -> Sample:
    if files.find_format(source) or Path(source).expanduser().is_dir():
        return files.read_files(source)
    if is_http(source):
        return databases.read_api(request, source)
    if "://" in source:
        return databases.read_database(request, source, ask)
    path = Path(source).expanduser()
    hint = (
        "Use one of: .csv, .parquet, .jsonl (also .gz, .zst, .zip), a folder of them, sqlite:// and postgresql:// URLs."
    )
    raise SpecError(f"{path} {'has an unknown format' if path.exists() else 'does not exist'}.", hint)


def _check_names(origin: str, names: Sequence[str]) -> None:
    """Refuse names with a line break or a null character, and names that are the same in SQL.

    Columns without a name pass: they are not read.
    """
    broken_names = [name for name in names if re.search(r"[\r\n\0]", name)]
    if broken_names:
        problem = f"{origin} has a column {broken_names[0][:60]!r}, whose name has a line break or a null character."
        raise DataError(problem, "Rename it in the source. If it is not a name, check that the file has a header.")
    lower_names = [name.lower() for name in names if name.strip()]
    repeated_names = sorted({name for name in names if lower_names.count(name.lower()) > 1})
    if repeated_names:
        problem = f"{origin} has two columns {repeated_names[0]}; upper and lower case count as the same."
        raise DataError(problem, "Rename one of them in the source.")
