"""Test that a view of Parquet files has the requested columns, whichever of them a file has."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.system.duckdb_session import connect, create_view

COLUMNS = pa.schema([("n", pa.int64()), ("gate", pa.string()), ("at", pa.timestamp("us", "UTC"))])


@pytest.mark.usefixtures("home")
def test_missing_columns_are_null_and_narrower_types_are_widened(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1], pa.int32()), "other": ["x"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": pa.array([2**40]), "gate": ["A1"]}), tmp_path / "b.parquet")
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    with connect() as connection, create_view(connection, "days", paths, COLUMNS):
        table = connection.sql("FROM days ORDER BY n").to_arrow_table()
        assert table.to_pydict() == {"n": [1, 2**40], "gate": [None, "A1"], "at": [None, None]}
        assert table.schema.field("n").type == pa.int64() and pa.types.is_timestamp(table.schema.field("at").type)


@pytest.mark.usefixtures("home")
def test_nan_is_found_although_the_statistics_of_parquet_ignore_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0, float("nan"), 2.0]}), tmp_path / "a.parquet")
    schema = pa.schema([("x", pa.float64())])
    number = "CASE WHEN NOT isnan(x) THEN x END"
    with connect() as connection, create_view(connection, "days", [str(tmp_path / "a.parquet")], schema):
        assert connection.sql(f"SELECT count(*) FROM days WHERE {number} IS NULL").fetchall() == [(1,)]
        assert connection.sql(f"SELECT count({number}), max({number}) FROM days").fetchall() == [(2, 2.0)]


@pytest.mark.usefixtures("home")
def test_a_view_without_files_has_no_rows_and_ends_with_its_block() -> None:
    schema = COLUMNS.append(pa.field("range", pa.int64()))
    with connect() as connection:
        with create_view(connection, "days", [], schema):
            assert connection.sql("FROM days").columns == schema.names
            assert connection.sql("FROM days").fetchall() == []
        with pytest.raises(duckdb.CatalogException, match="days"):
            connection.sql("FROM days")


CODE = """
import sys, pyarrow as pa
from pipelines.system.duckdb_session import connect, create_view
with connect() as connection, create_view(connection, "rows", [], pa.schema([("a", pa.string())])):
    connection.sql("FROM rows").to_arrow_table()
    {statement}
print("pandas" in sys.modules)
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("statement", "is_imported"), [("pass", "False"), ("pa.array([])", "True")])
def test_a_view_does_not_import_pandas(statement: str, is_imported: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", CODE.format(statement=statement)], capture_output=True, text=True, check=True
    )
    assert process.stdout == f"{is_imported}\n"
