"""Serve a registered model in a SageMaker container. SageMaker's script mode calls these functions.

This file is code/inference.py in a model.tar.gz whose other files are MLflow's package of the version. So it imports
only the standard library, the requirements of that package and arrow_sizes.py.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

LINES = "application/jsonlines"
"""Content type of requests: each line is a JSON list with the features of a row, in the order of the model's signature;
a missing value is null. Each line of a response is a score, or a JSON list with the probability of each class."""
JSON = "application/json"
"""Content type of a request with a row as an object by column name, or a list of them; also of responses."""
CSV = "text/csv"
"""Content type of a request with a header and a row on each line. An empty value is a missing one."""
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
KEY = "key"
"""Entry of the package's metadata with the columns that name a row. A row by column name may have them, too."""
MAX_BYTES = 6 * 1024**2
"""Largest body of a request by column name."""
MAX_ROWS = 100_000
"""Most rows of a request by column name."""
MAX_EXPANDED_BYTES = 64 * 1024**2
"""Largest size of the rows of a Parquet or Arrow body in memory."""
BATCH_ROWS = 64
"""Rows of a Parquet or Arrow body that are read at once. A value can be as long as the body."""


class BadRequest(ValueError):
    """The request is wrong, and a retry cannot help. `status_code` is the HTTP status of the answer."""

    def __init__(self, message: str, status_code: int = 400) -> None:
        super().__init__(message)
        self.status_code = status_code


class Table(NamedTuple):
    """Rows by column name, before their values are checked."""

    rows: list[dict[str, Any]]
    is_text: bool = False
    """Whether all values are text, as in CSV."""


def model_fn(model_dir: str) -> Any:
    """Load the packaged model from a folder. MLflow's warnings of other versions would take a second of CPU."""
    import mlflow.pyfunc  # takes seconds and prints warnings, so not at the import of this module

    return mlflow.pyfunc.load_model(model_dir, suppress_warnings=True)


def input_fn(body: bytes | str, content_type: str) -> list[list[Any]] | Table:
    """Parse the rows of a request.

    Raises:
        BadRequest: the content type is not supported, or the body is not of that type or too large.
        ValueError: a line of `LINES` is not JSON.
    """
    if content_type == LINES:
        return [json.loads(line) for line in body.splitlines()]
    return parse_table(body, content_type, LINES)


def parse_table(body: bytes | str, content_type: str, *other_types: str) -> Table:
    """Parse rows by column name. An error names the supported types, and `other_types` that the caller supports.

    Raises:
        BadRequest: the content type is not supported, or the body is not of that type or too large.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in _PARSERS:
        supported = ", ".join((*other_types, *_PARSERS))
        raise BadRequest(f"content type {content_type or 'none'} is not supported: send one of {supported}", 415)
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
    return table


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

    try:
        from pipelines.container.arrow_sizes import sum_expanded_bytes
    except ImportError:  # in a container, both files are in the folder code
        from arrow_sizes import sum_expanded_bytes  # type: ignore[import-not-found, no-redef]
    _check_size(sum_expanded_bytes(data))
    with pa.ipc.open_stream(data) as stream:
        _check_schema(stream.schema)
        return _list_rows(stream)


def _list_rows(batches: Iterable[Any]) -> Table:
    """Return the rows of Arrow's batches. A small body can have many or long values: they are compressed."""
    rows: list[dict[str, Any]] = []
    size_bytes = 0
    for batch in batches:
        batch.validate(full=True)  # its offsets may point anywhere
        _check_row_count(len(rows) + batch.num_rows)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            for name, column in zip(part.schema.names, part.columns, strict=True):
                if hasattr(column, "dictionary_decode"):  # many rows share a value, which may be long
                    part = part.set_column(part.schema.get_field_index(name), name, column.dictionary_decode())
            size_bytes += part.nbytes
            _check_size(size_bytes)
            rows += part.to_pylist()
    return Table(rows)


def _check_schema(schema: Any) -> None:
    from pyarrow import types

    _check_names(schema.names)
    is_flat = (types.is_primitive, types.is_decimal, types.is_string, types.is_large_string, types.is_null)
    for field in schema:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if not any(check(kind) for check in is_flat):
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
        raise BadRequest(f"column {repeated_names[0]} is there more than once")


def predict_fn(rows: Sequence[Sequence[Any]] | Table, model: Any) -> Any:
    """Return the model's prediction for each row.

    Raises:
        BadRequest: a row by column name lacks a feature, has an unknown column, or a value of another type.
        ValueError: a row of `LINES` has more or fewer values than the model has features.
    """
    features = model.metadata.get_input_schema().inputs
    if isinstance(rows, Table):
        types = {feature.name: feature.type.name for feature in features}
        rows = _list_values(rows, types, (model.metadata.metadata or {}).get(KEY, ()))
    columns = zip(features, zip(*rows, strict=True), strict=True)
    return model.predict(
        pd.DataFrame({feature.name: pd.Series(values, dtype=feature.type.to_pandas()) for feature, values in columns})
    )


def _list_values(table: Table, types: Mapping[str, str], key: Sequence[str]) -> list[list[Any]]:
    """Return the checked values of each row in the order of the features. Other columns of the key are not read."""
    values = []
    for number, row in enumerate(table.rows, 1):
        if missing := [name for name in types if name not in row]:
            raise BadRequest(f"row {number} lacks the columns {', '.join(missing)}: send every feature of the model")
        if unknown := [name for name in row if name not in types and name not in key]:
            raise BadRequest(f"row {number} has columns that are no features of the model: {', '.join(unknown)}")
        values.append([_convert(row[name], types[name], name, number, table.is_text) for name in types])
    return values


def _convert(value: Any, type_name: str, column: str, number: int, is_text: bool) -> Any:
    if value is None or (is_text and value == ""):
        if type_name in ("double", "float", "string"):
            return None
        raise BadRequest(f"row {number}, column {column}: a {type_name} must not be missing")
    try:
        return _CONVERTERS[type_name](_parse_text(value, type_name) if is_text else value)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"row {number}, column {column}: {str(value)[:50]!r} is not a {type_name}") from error


def _parse_text(text: str, type_name: str) -> Any:
    if type_name in ("double", "float"):
        return float(text)
    if type_name in ("long", "integer"):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), text) if type_name == "boolean" else text


def _to_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no finite number")
    return float(value)


def _to_integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError("no integer in the range")
    return value


def _keep_type(value: Any, expected: type) -> Any:
    if not isinstance(value, expected):
        raise ValueError("another type")
    return value


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "double": _to_float,
    "float": _to_float,
    "long": lambda value: _to_integer(value, 64),
    "integer": lambda value: _to_integer(value, 32),
    "boolean": lambda value: _keep_type(value, bool),
    "string": lambda value: _keep_type(value, str),
}


def output_fn(scores: Iterable[float] | pd.DataFrame, accept: str) -> str:
    """Format the scores without loss of precision.

    `LINES` has one on each line, or a list on each line for a multiclass model. `JSON` is an object whose `scores` are
    a list of numbers, or of objects by class or quantile.

    Raises:
        BadRequest: the request accepts neither `LINES` nor `JSON`.
    """
    if accept == JSON:
        return json.dumps({"scores": list_scores(scores)})
    if accept != LINES:
        raise BadRequest(f"content type {accept} is not supported: accept {LINES} or {JSON}", 406)
    if isinstance(scores, pd.DataFrame):
        return "\n".join(json.dumps([float(score) for score in row]) for row in scores.to_numpy())
    return "\n".join(json.dumps(float(score)) for score in scores)


def list_scores(scores: Iterable[float] | pd.DataFrame) -> list[Any]:
    """Return the scores as JSON values: a list of numbers, or of objects by class or quantile."""
    if isinstance(scores, pd.DataFrame):
        names = [str(name) for name in scores.columns]
        return [dict(zip(names, map(float, row), strict=True)) for row in scores.to_numpy()]
    return [float(score) for score in scores]
