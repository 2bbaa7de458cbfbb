"""A view of Parquet files has the wanted columns, whichever of them a file has."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.system.duckdb_session import connect, create_view

WANTED = pa.schema([("n", pa.int64()), ("gate", pa.string()), ("at", pa.timestamp("us", "UTC"))])


@pytest.mark.usefixtures("home")
def test_what_a_file_lacks_is_null_and_what_is_narrower_is_widened(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1], pa.int32()), "other": ["x"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": pa.array([2**40]), "gate": ["A1"]}), tmp_path / "b.parquet")
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    with connect() as connection, create_view(connection, "seen", paths, WANTED):
        seen = connection.sql("FROM seen ORDER BY n").to_arrow_table()
        assert seen.to_pydict() == {"n": [1, 2**40], "gate": [None, "A1"], "at": [None, None]}
        assert seen.schema.field("n").type == pa.int64() and pa.types.is_timestamp(seen.schema.field("at").type)


@pytest.mark.usefixtures("home")
def test_no_file_is_no_row_and_the_view_is_gone_after_its_block() -> None:
    schema = WANTED.append(pa.field("range", pa.int64()))
    with connect() as connection:
        with create_view(connection, "seen", [], schema):
            assert connection.sql("FROM seen").columns == schema.names
            assert connection.sql("FROM seen").fetchall() == []
        with pytest.raises(duckdb.CatalogException, match="seen"):
            connection.sql("FROM seen")


CODE = """
import sys, pyarrow as pa
from pipelines.system.duckdb_session import connect, create_view
with connect() as connection, create_view(connection, "rows", [], pa.schema([("a", pa.string())])):
    connection.sql("FROM rows").to_arrow_table()
    {then}
print("pandas" in sys.modules)
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("then", "started"), [("pass", "False"), ("pa.array([])", "True")])
def test_a_view_does_not_start_pandas(then: str, started: str) -> None:
    told = subprocess.run([sys.executable, "-c", CODE.format(then=then)], capture_output=True, text=True, check=True)
    assert told.stdout == f"{started}\n"
