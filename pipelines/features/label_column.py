"""Find the label of a dataset's rows: a column of the rows, or a value that the dataset's label.py computes from them.

The function `label` of label.py returns an ibis expression. DuckDB and Spark run it, so all steps see the same labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from pipelines.dataset import Dataset, explain_import_error
from pipelines.errors import DataError
from pipelines.features.labels import check_type

if TYPE_CHECKING:  # ibis takes half a second to import, and most datasets do not compute their label
    import ibis
    import ibis.expr.operations as ops
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

LABEL_HINT = "Correct label.py of the dataset."
"""What to do if the label cannot be computed."""


class LabelFunction(Protocol):
    """The function `label` of a dataset's package."""

    def __call__(self, rows: ibis.Table) -> ibis.Column:
        """Return the label of each row, computed from columns of `rows`; null if it is not known."""


def load_label_function(dataset: Dataset) -> LabelFunction | None:
    """Load the function of label.py, which computes the label.

    Returns:
        The function; None if the dataset has no label, or has no label.py because its label is a column of the rows.

    Raises:
        SpecError: label.py cannot be imported, or has no function `label`. A retry cannot help.
    """
    if not dataset.label or not _has_label_module(dataset):
        return None
    try:
        function: LabelFunction = import_module(f"pipelines.datasets.{dataset.name}.label").label
    except Exception as error:  # a module may raise any error when it is imported
        raise explain_import_error(f"label.py of {dataset.name} cannot be used", error) from None
    return function


def _has_label_module(dataset: Dataset) -> bool:
    """Return whether the dataset's package has a module `label`."""
    try:  # `find_spec`, since the package is in a zip in a processing job: a test of the file would fail
        return find_spec(f"pipelines.datasets.{dataset.name}.label") is not None
    except ModuleNotFoundError:  # the dataset has no package
        return False


def check_label_type(dataset: Dataset, schema: pa.Schema) -> None:
    """Check that the type of the label fits the dataset's task. A dataset without a label passes.

    Args:
        dataset: dataset of the rows.
        schema: schema of the rows.

    Raises:
        DataError: the label is not a column and cannot be computed, or its type does not fit. A retry cannot help.
        SpecError: label.py cannot be imported, or has no function `label`. A retry cannot help.
    """
    if dataset.label:
        check_type(dataset, find_label_type(dataset, schema))


def find_label_type(dataset: Dataset, schema: pa.Schema) -> pa.DataType:
    """Return the type of the label of rows with this schema.

    Raises:
        DataError: there is no label.py, and the label is not a column; or `build_label` refuses the label of label.py.
            A retry cannot help.
        SpecError: label.py cannot be imported, or has no function `label`. A retry cannot help.
    """
    if not load_label_function(dataset):
        if dataset.label not in schema.names:
            message = f"the rows of {dataset.name} have no column {dataset.label}, its label."
            raise DataError(message, "Correct the source, or `label` of the dataset.")
        return schema.field(dataset.label).type
    import ibis

    return build_label(dataset, ibis.table(ibis.Schema.from_pyarrow(schema), name="rows")).type().to_pyarrow()


def compute_labels(dataset: Dataset, rows: pa.Table) -> pa.ChunkedArray:
    """Return the label of each row, in the order of the rows.

    Raises:
        DataError: the label cannot be computed. A retry cannot help.
    """
    if not load_label_function(dataset):
        return rows[dataset.label]
    import ibis
    import pyarrow as pa

    position = "leeway.position"
    table = ibis.memtable(rows.append_column(position, pa.array(range(rows.num_rows))))
    labels = table.select(build_label(dataset, table).name(dataset.label), position).order_by(position)
    return labels.to_pyarrow()[dataset.label]


def build_label_query(dataset: Dataset, connection: DuckDBPyConnection, view: str) -> str:
    """Return a DuckDB query for the key and the label of the rows of a view. The label's column is `label`.

    Raises:
        DataError: the label cannot be computed. A retry cannot help.
    """
    from pipelines.system.duckdb_session import quote_identifier

    if not load_label_function(dataset):
        columns = ", ".join(map(quote_identifier, dataset.key))
        return f"SELECT {columns}, {quote_identifier(dataset.label)} AS label FROM {quote_identifier(view)}"  # noqa: S608
    import ibis

    rows = ibis.duckdb.from_connection(connection).table(view)
    query = rows.select(*dataset.key, build_label(dataset, rows).name("label"))
    return str(ibis.to_sql(query, dialect="duckdb", pretty=False))


def build_label(dataset: Dataset, rows: ibis.Table) -> ibis.Column:
    """Return the label of each row, as a column of `rows`.

    Raises:
        DataError: label.py cannot compute the label, or the rows already have a column of its name; or the label has a
            type that does not fit the task, or `find_label_problem` finds a problem. A retry cannot help.
    """
    function = load_label_function(dataset)
    if function is None:
        return rows[dataset.label]
    if dataset.label in rows.columns:
        message = f"{dataset.name} has a label.py, but its rows have a column {dataset.label} already."
        raise DataError(message, "Rename the label, or delete label.py.")
    try:
        label = function(rows)
    except Exception as error:  # the function may raise any error, and ibis has several for a missing column
        text = " ".join(str(error).split())[:300].rstrip(".")
        raise DataError(f"the label of {dataset.name} cannot be computed: {text}.", LABEL_HINT) from None
    problem = find_label_problem(dataset, rows, label)
    if problem:
        raise DataError(f"the label {dataset.label} of {dataset.name} {problem}.", LABEL_HINT)
    check_type(dataset, label.type().to_pyarrow())
    return label


def find_label_problem(dataset: Dataset, rows: ibis.Table, label: object) -> str:
    """Return why `label` cannot be the label of the rows, as the end of a sentence that begins with the label's name.

    A label must be a column of `rows` that depends only on rows of its own partition and is the same in each run. It
    must be computed from columns of `known_later`; the only other columns that it may use are those of the key.

    Returns:
        The problem; empty if there is none.
    """
    import ibis

    if not isinstance(label, ibis.Column):
        return f"must be a column of `rows`, and `label` returned {type(label).__name__}"
    if not label.op().relations <= {rows.op()}:
        return "must be a column of `rows` itself, not of a table that is derived from `rows`"
    return _find_row_problem(dataset, rows, label) or _find_source_problem(dataset, label)


def _find_row_problem(dataset: Dataset, rows: ibis.Table, label: ibis.Column) -> str:
    """Return the problem if the label has a query of its own, reads other partitions or may change; else empty."""
    import ibis.expr.operations as ops

    root = rows.mutate(**{dataset.label: label}).op()
    if set(root.find(ops.Relation)) - set(rows.op().find(ops.Relation)) != {root}:
        return "is computed from a query of its own; only window functions may read other rows"
    if root.find(ops.Impure):
        return "depends on chance, the clock or a Python function, so it would differ between runs"
    partition_columns = ("date", "hour") if dataset.partition == "hour" else ("date",)
    if any(not set(partition_columns) <= set(_list_group_columns(window)) for window in root.find(ops.WindowFunction)):
        columns = " and ".join(partition_columns)
        return f"depends on rows of other {dataset.partition}s; group its window functions by {columns}"
    return ""


def _find_source_problem(dataset: Dataset, label: ibis.Column) -> str:
    """Return the problem if the label uses a column that features may use, or none of `known_later`; else empty."""
    import ibis.expr.operations as ops

    sources = {field.name for field in label.op().find(ops.Field)}
    if early_columns := sorted(sources - {*dataset.known_later, *dataset.key}):
        return f"is computed from {', '.join(early_columns)}, which features may use; name it in `known_later`"
    if not sources & set(dataset.known_later):
        return "is computed from no column of `known_later`, so it is known when the prediction is made"
    return ""


def _list_group_columns(window: ops.WindowFunction) -> Iterator[str]:
    import ibis.expr.operations as ops

    return (value.name for value in window.group_by if isinstance(value, ops.Field))
