"""The rows of an expression are made independent only if all of its operations are known."""

from __future__ import annotations

from typing import Any

import ibis
import pyarrow as pa
import pytest

from pipelines.features.independent_rows import make_rows_independent

ROWS = ibis.table({"number": "int64", "price": "float64", "city": "string"}, name="rows")
DATA = pa.table(
    {"number": range(5), "price": [0.1, 0.2, None, 0.7, 0.1], "city": ["a", "b", "a", None, "a"]},
    schema=ROWS.schema().to_pyarrow(),
)


def compute(table: ibis.Table, rows: pa.Table) -> list[dict[str, Any]]:
    connection = ibis.duckdb.connect()
    connection.con.register("rows", rows)
    return connection.to_pyarrow(table.order_by("number")).to_pylist()


@pytest.mark.parametrize(
    "table",
    [
        ROWS.mutate(x=ROWS.count().over(group_by="city")),
        ROWS.mutate(x=ROWS.price - ROWS.price.mean()),
        ROWS.mutate(y=ROWS.price.sum().over(group_by="city")).mutate(x=lambda rows: rows.y / rows.y.max()),
        ROWS.mutate(x=ROWS.price.lag().over(order_by="number"), y=ROWS.price.cumsum(), z=ROWS.price.rank()),
        ROWS.mutate(x=ibis.row_number(), y=ROWS.price.collect().over(group_by="city")).drop("price"),
    ],
)
def test_each_row_has_the_values_that_it_has_alone(table: ibis.Table) -> None:
    independent = make_rows_independent(table, "number")
    assert independent is not None
    alone = [compute(table, DATA.slice(number, 1))[0] for number in range(DATA.num_rows)]
    assert compute(independent, DATA) == alone
    assert compute(table, DATA) != alone, "the control: together, the rows have other values"


@pytest.mark.parametrize("table", [ROWS, ROWS.mutate(x=ROWS.price * 2, y=ROWS.city.upper()).drop("price")])
def test_an_expression_of_single_rows_stays_as_it_is(table: ibis.Table) -> None:
    independent = make_rows_independent(table, "number")
    assert independent is not None and independent.equals(table)


@ibis.udf.scalar.builtin
def hash(value: str) -> int:  # DuckDB's name
    """Stand for a function of DuckDB that ibis does not know."""
    raise NotImplementedError


@pytest.mark.parametrize(
    "table",
    [
        ROWS.left_join(ROWS.group_by("city").agg(x=ROWS.count()), "city"),
        ROWS.filter(ROWS.price > 1),
        ROWS.limit(1),
        ROWS.distinct(),
        ROWS.union(ROWS),
        ROWS.aggregate(number=ROWS.number.max()),
        ROWS.mutate(x=ROWS.price.max().as_scalar()),
        ROWS.mutate(x=ROWS.price.isin(ROWS.filter(ROWS.city == "a").price)),
        ROWS.mutate(x=ibis.random()),
        ROWS.mutate(x=ibis.now()),
        ROWS.mutate(x=ibis.array([1, 2]).unnest()),
        ROWS.mutate(x=hash(ROWS.city)),
        ROWS.mutate(x=(ROWS.price.sum().over(group_by="city") + 1).max().over(group_by="city")),
        ROWS.select("city", x=ROWS.price.sum().over(group_by="city")),
    ],
)
def test_an_unknown_operation_is_refused(table: ibis.Table) -> None:
    assert make_rows_independent(table, "number") is None
