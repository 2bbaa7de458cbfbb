"""Format and parse compiled features: a JSON file in a model version's package that says how raw rows become features.

The file is written when the version is registered.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

FILE_NAME = "compiled_features.json"
"""Name of the file in the package's folder `code`."""
FORMAT = 3
"""Version of the format in which files are written."""
FORMATS = (1, 2, 3)
"""Versions of the format that are read; other files are refused. Files of versions 1 and 2 lack
`CompiledLookup.is_of_earlier_partition`, and those of version 1 also lack `Query.separate_sql`."""
MAX_BYTES = 4 * 1024**2
"""Largest size of the file."""


@dataclass(frozen=True)
class Query:
    """Compiled SQL that computes features from the rows of a request."""

    columns: Sequence[str]
    """Columns of the rows that the query reads."""
    column_types: Sequence[str]
    """DuckDB's types of these columns, in the same order."""
    sql: str
    """Computes many rows, from the view `feature_query.ROWS`. The result has the order of the request."""
    one_row_sql: str
    """Computes one row, whose columns are the parameters $1, $2 and so on."""
    outputs: pa.Schema
    """Columns of the result: the features, then the columns of the lookups' keys. The first column of the result, the
    row's position, is left out."""
    separate_sql: str | None = None
    """Like `sql`, but with independent rows: each row is computed as if it were the only one. It equals `sql` if the
    rows of `sql` are independent already; None if no such SQL is known."""

    @property
    def are_rows_independent(self) -> bool:
        """Whether the features of each row are known to be independent of the other rows of the request."""
        return self.separate_sql == self.sql


@dataclass(frozen=True)
class CompiledLookup:
    """Features that are read in the online store by a key."""

    name: str
    """Name of the lookup."""
    group: str
    """Name of the lookup's feature group."""
    key_columns: Sequence[str]
    """Columns of the lookup's key in the outputs of the query."""
    features: Mapping[str, float | str | None]
    """Maps each feature to its default; None is a missing value."""
    max_age_s: float
    """Largest age of a value, seconds, from the beginning of its partition to that of the row's partition."""
    is_of_earlier_partition: bool = False
    """Whether only values of partitions before the row's own partition are used, as in training."""


@dataclass(frozen=True)
class CompiledFeatures:
    """The queries that compute features from raw rows, independent of the dataset's code."""

    row_schema: pa.Schema
    """All columns of the published rows."""
    known_later: Sequence[str]
    """Columns that are known only after the prediction."""
    key: Sequence[str]
    """Columns that identify a row."""
    partition: str
    """Unit of the partitions: hour, day or month."""
    features: Mapping[str, str]
    """Maps each feature to its kind, number or category."""
    changed_features: Sequence[str]
    """Features that have the same name as a column of the rows, but other values."""
    features_of_other_rows: Sequence[str]
    """Features of a row that also depend on other rows of the dataset."""
    query: Query
    """Computes all features from the rows."""
    lookups: Sequence[CompiledLookup] = ()
    """Features that are read in the online store; empty if all are computed from the rows."""
    lookup_query: Query | None = None
    """Computes the features that are not looked up, and the keys of the lookups; None without lookups."""

    def format(self) -> str:
        """Format as JSON. Equal values give equal texts.

        Raises:
            ValueError: the text would be longer than `MAX_BYTES`.
        """
        values = {
            **asdict(self),
            "format": FORMAT,
            "row_schema": _format_schema(self.row_schema),
            "query": _format_query(self.query),
            "lookup_query": _format_query(self.lookup_query) if self.lookup_query else None,
        }
        text = json.dumps(values, indent=1, sort_keys=False)
        if len(text.encode()) > MAX_BYTES:
            raise ValueError(f"the compiled features have more than {MAX_BYTES} bytes")
        return text + "\n"


def parse_compiled_features(text: str) -> CompiledFeatures:
    """Parse a text that `CompiledFeatures.format` wrote.

    Raises:
        ValueError: the text is not JSON of this format, or has another version of it. A retry cannot help.
    """
    try:
        values = json.loads(text)
        if (number := values.pop("format")) not in FORMATS:
            raise ValueError(f"its format is {number}, not {FORMAT} or older: deploy with the code that registered it")
        lookup_query = values["lookup_query"]
        return CompiledFeatures(
            **{
                **values,
                "row_schema": _parse_schema(values["row_schema"]),
                "query": _parse_query(values["query"]),
                "lookups": [CompiledLookup(**lookup) for lookup in values["lookups"]],
                "lookup_query": _parse_query(lookup_query) if lookup_query else None,
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:  # OSError: a damaged schema
        raise ValueError(f"{FILE_NAME} cannot be read: {error}") from None


def read_compiled_features(package: Path) -> CompiledFeatures | None:
    """Read the compiled features of a package; None for a version that was registered without them.

    Args:
        package: folder of the package, whose files were checked.

    Raises:
        ValueError: the file is damaged or too large, or has another version of the format. A retry cannot help.
    """
    path = package / "code" / FILE_NAME
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_BYTES + 1:
        raise ValueError(f"{FILE_NAME} has more than {MAX_BYTES} bytes")
    return parse_compiled_features(path.read_text(encoding="utf-8"))


def _format_query(query: Query) -> dict[str, Any]:
    return {**asdict(query), "outputs": _format_schema(query.outputs)}


def _parse_query(values: dict[str, Any]) -> Query:
    return Query(**{**values, "outputs": _parse_schema(values["outputs"])})


def _format_schema(schema: pa.Schema) -> list[list[str]]:
    """Return the name of each column and, twice, its type: as text for people, and in Arrow's exact format."""
    return [
        [field.name, str(field.type), base64.b64encode(pa.schema([field]).serialize().to_pybytes()).decode()]
        for field in schema
    ]


def _parse_schema(columns: list[list[str]]) -> pa.Schema:
    return pa.schema(
        [
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(metadata, validate=True))).field(0)
            for _, _, metadata in columns
        ]
    )
