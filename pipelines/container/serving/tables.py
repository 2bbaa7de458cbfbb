"""Parse the rows of a request: by column name as JSON, CSV, Parquet or Arrow, or as lists of values."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    _ServerError = Exception
else:
    try:  # for any other error, SageMaker's inference toolkit answers 500, which can raise an alarm of a release
        from sagemaker_inference.errors import BaseInferenceToolkitError as _ServerError
    except ImportError:
        _ServerError = Exception

LINES = "application/jsonlines"
"""Content type of a request whose lines are JSON lists with the values of a row; also of responses."""
JSON = "application/json"
"""Content type of a request with one row or a list of rows, each an object by column name; also of responses."""
CSV = "text/csv"
"""Content type of a request whose first line is a header, and whose other lines are rows. An empty value is missing."""
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
MAX_BYTES = 6 * 1024**2
"""Largest body of a request by column name, bytes."""
MAX_ROWS = 100_000
"""Largest number of rows of a request by column name."""
MAX_EXPANDED_BYTES = 64 * 1024**2
"""Largest size in memory of the rows of a Parquet or Arrow body, bytes."""
BATCH_ROWS = 64
"""Rows of a Parquet or Arrow body that are read at once: few, because one value can be as long as the body."""


RowKind = Literal["raw", "features"]
"""Kind of rows: raw rows of the dataset, or rows of features."""


class BadRequest(ValueError, _ServerError):
    """The request is wrong, and a retry cannot help. `status_code` is the HTTP status of the answer.

    Where SageMaker's inference toolkit is installed, this class is one of its errors, of which it also reads `message`
    and `phrase`.
    """

    def __init__(self, message: str, status_code: int = 400) -> None:
        ValueError.__init__(self, message)
        self.message, self.status_code, self.phrase = message, status_code, HTTPStatus(status_code).phrase


class Table(NamedTuple):
    """Rows by column name, before their values are checked."""

    rows: list[dict[str, Any]]
    is_text: bool = False
    """Whether all values are text, as in CSV."""
    kind: RowKind | None = None
    """Kind of the rows, if the content type names it."""


def parse_table(body: bytes | str, content_type: str, *other_types: str) -> Table:
    """Parse rows by column name.

    The content type may have the parameter `rows`, as in `application/json; rows=raw`: see `RowKind`.

    Args:
        body: body of the request.
        content_type: content type of the request.
        other_types: content types that the caller parses itself. An error names them, too, as supported.

    Raises:
        BadRequest: the content type is not supported, or the body is not of that type, is too large or has no rows.
    """
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if media_type not in _PARSERS:
        supported_types = ", ".join((*other_types, *_PARSERS))
        raise BadRequest(f"content type {content_type or 'none'} is not supported: send one of {supported_types}", 415)
    data = body.encode() if isinstance(body, str) else body
    if len(data) > MAX_BYTES:
        raise BadRequest(f"the body has {len(data)} bytes: send at most {MAX_BYTES}", 413)
    try:
        table = _PARSERS[media_type](data)
    except BadRequest:
        raise
    except (ValueError, OSError, LookupError, NotImplementedError, RecursionError, csv.Error) as error:
        raise BadRequest(f"the body is not {media_type}: {' '.join(str(error).split())}") from error
    if not table.rows:
        raise BadRequest("the request has no rows")
    _check_row_count(len(table.rows))
    return table._replace(kind=_find_kind(parameters))


def parse_lines(body: bytes | str) -> list[list[Any]]:
    """Parse rows without names of columns: each line is a JSON list.

    Raises:
        BadRequest: there is no line, or one is not a JSON list. The message names the row.
    """
    rows = [
        _parse_line(line, number)
        for number, line in enumerate((body.encode() if isinstance(body, str) else body).splitlines(), 1)
    ]
    if not rows:
        raise BadRequest("the request has no rows")
    return rows


def _parse_line(line: bytes, number: int) -> list[Any]:
    try:
        row = json.loads(line)  # `loads` accepts NaN; the later check of the values refuses NaN, and names the column
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"row {number} is not JSON: {' '.join(str(error).split())}") from error
    if not isinstance(row, list):
        raise BadRequest(f"row {number} is not a list of values: send rows by column name as {JSON}")
    return row


def _find_kind(parameters: Sequence[str]) -> RowKind | None:
    values = [parameter.removeprefix("rows=") for parameter in parameters if parameter.startswith("rows=")]
    if unknown_values := [value for value in values if value not in get_args(RowKind)]:
        raise BadRequest(f"the content type has rows={unknown_values[0][:50]}: write rows=raw or rows=features", 415)
    return values[0] if values else None  # type: ignore[return-value]


def _parse_json(data: bytes) -> Table:
    rows = json.loads(data, parse_constant=_reject_constant, object_pairs_hook=_build_object)
    rows = rows if isinstance(rows, list) else [rows]
    if number := next((number for number, row in enumerate(rows, 1) if not isinstance(row, dict)), 0):
        raise BadRequest(f"row {number} is not an object by column name")
    return Table(rows)


def _reject_constant(name: str) -> Any:
    raise BadRequest(f"{name} is not JSON: send null for a missing value")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _check_names([name for name, _ in pairs])
    return dict(pairs)


def _parse_csv(data: bytes) -> Table:
    lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
    header = next(lines, [])
    _check_names(header)
    rows = []
    for number, values in enumerate(lines, 1):
        if len(values) != len(header):
            raise BadRequest(f"row {number} has {len(values)} values, but the header has {len(header)} columns")
        rows.append(dict(zip(header, values, strict=True)))
    return Table(rows, is_text=True)


def _parse_parquet(data: bytes) -> Table:
    import pyarrow.parquet as pq  # not needed for other content types

    file = pq.ParquetFile(io.BytesIO(data))
    metadata = file.metadata
    _check_size(sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)))
    _check_row_count(metadata.num_rows)
    _check_schema(file.schema_arrow)
    return _list_rows(file.iter_batches(BATCH_ROWS))


def _parse_arrow(data: bytes) -> Table:
    import pyarrow as pa  # not needed for other content types

    from pipelines.container.serving.arrow_sizes import sum_expanded_bytes

    _check_size(sum_expanded_bytes(data))
    with pa.ipc.open_stream(data) as stream:
        _check_schema(stream.schema)
        return _list_rows(stream)


def _list_rows(batches: Iterable[Any]) -> Table:
    """Return the rows of Arrow's batches, and check their size: a small compressed body can have large rows."""
    rows: list[dict[str, Any]] = []
    size_bytes = 0
    for batch in batches:
        batch.validate(full=True)  # a wrong batch may have offsets outside of its buffers
        _check_row_count(len(rows) + batch.num_rows)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            for name, column in zip(part.schema.names, part.columns, strict=True):
                # Rows share the values of a dictionary, so nbytes would be too small.
                if hasattr(column, "dictionary_decode"):
                    part = part.set_column(part.schema.get_field_index(name), name, column.dictionary_decode())
            size_bytes += part.nbytes
            _check_size(size_bytes)
            rows += part.to_pylist()
    return Table(rows)


def _check_schema(schema: Any) -> None:
    from pyarrow import types

    _check_names(schema.names)
    type_checks = (types.is_primitive, types.is_decimal, types.is_string, types.is_large_string, types.is_null)
    for field in schema:
        value_type = field.type.value_type if types.is_dictionary(field.type) else field.type
        if not any(check(value_type) for check in type_checks):
            raise BadRequest(f"column {field.name} has the type {field.type}: send numbers, texts, dates or times")


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_EXPANDED_BYTES:
        raise BadRequest(f"the rows take more than {MAX_EXPANDED_BYTES} bytes: send fewer", 413)


_PARSERS = {JSON: _parse_json, CSV: _parse_csv, PARQUET: _parse_parquet, ARROW: _parse_arrow}


def _check_row_count(count: int) -> None:
    if count > MAX_ROWS:
        raise BadRequest(f"the request has {count} rows: send at most {MAX_ROWS}", 413)


def _check_names(names: Sequence[str]) -> None:
    repeated_names = [name for name, count in Counter(names).items() if count > 1]
    if repeated_names:
        raise BadRequest(f"column {repeated_names[0]} occurs more than once")
