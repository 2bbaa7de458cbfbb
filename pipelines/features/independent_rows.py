"""Change an expression so that each of its rows is computed as if it were the only one."""

from __future__ import annotations

from typing import Any

import ibis
import ibis.expr.operations as ops

KNOWN_RELATIONS = (ops.Project, ops.DropColumns, ops.UnboundTable)
"""Relations that return each row of their parent once. Others, such as joins, can mix rows even if there is no window
function."""
UNKNOWN_VALUES = (ops.Subquery, ops.Unnest, ops.Impure, ops.ScalarUDF)
"""Values that can depend on other rows without a window function, add rows, or change from one call to the next."""


def make_rows_independent(table: ibis.Table, row_number_column: str) -> ibis.Table | None:
    """Return the expression in which each row has the values that it would have without the other rows.

    A window function gets the row's number as a further column of its groups, so that each row is a group of its own.
    An expression without window functions does not change.

    Args:
        table: expression on one unbound table.
        row_number_column: column with a different value in each row. All steps of the expression keep it.

    Returns:
        The expression; None if it has an operation for which this cannot be guaranteed.
    """
    node = table.op()
    if not all(isinstance(relation, KNOWN_RELATIONS) for relation in node.find(ops.Relation)):
        return None
    has_column = all(row_number_column in relation.schema for relation in node.find(ops.Relation))
    if node.find(UNKNOWN_VALUES) or not has_column:
        return None
    new_node = node.replace(lambda node, values: _rebuild_node(node, values, row_number_column))
    # A reduction or an analytic function outside a window reads all rows, so its value for a single row is not known.
    windows = new_node.find(ops.WindowFunction)
    functions_in_windows = {window.func for window in windows}
    has_number = all(any(_is_field(column, row_number_column) for column in window.group_by) for window in windows)
    functions = new_node.find((ops.Reduction, ops.Analytic))
    is_known = has_number and all(function in functions_in_windows for function in functions)
    return new_node.to_expr() if is_known else None


def _rebuild_node(node: Any, values: dict[str, Any] | None, row_number_column: str) -> Any:
    """Return a node with these values; in a projection, add the column of row numbers to the groups of the windows."""
    node = node.__recreate__(values) if values else node
    if not isinstance(node, ops.Project):
        return node
    column = ops.Field(node.parent, row_number_column)
    return ops.Project(node.parent, {name: _add_to_groups(value, column) for name, value in node.values.items()})


def _add_to_groups(value: ops.Value, column: ops.Field) -> ops.Value:
    """Return the value, with the column added to the groups of each of its window functions."""
    windows = value.find(ops.WindowFunction, filter=ops.Value)
    return value.replace({window: window.copy(group_by=(*window.group_by, column)) for window in windows})


def _is_field(value: ops.Value, name: str) -> bool:
    return isinstance(value, ops.Field) and value.name == name
