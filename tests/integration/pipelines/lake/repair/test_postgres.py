"""Test that a lake whose catalog is in PostgreSQL is checked and repaired."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.lake.check import check_lake
from pipelines.lake.repair import repair_lake
from tests.tools.postgres import run_postgres

DAY = dt.date(2013, 1, 1)


def write_day(value: int) -> None:
    rows = pa.table({"date": pa.array([DAY] * 50, pa.date32()), "value": pa.array([value] * 50, pa.int64())})
    Lake.open().write_partition("t", DAY, rows)


def repair() -> list[tuple[str, str]]:
    """Repair the lake; return kind and problem of what was restored. Nothing may stay lost."""
    report, restored = repair_lake()
    assert not report.findings
    assert not check_lake().findings
    return [(finding.kind, finding.problem) for finding in restored]


@pytest.mark.soak
def test_a_lake_on_postgresql_is_repaired(
    home: Path, tmp_path: Path, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_postgres(free_port()) as address:
        variables = {"TYPE": "sql", "URI": address, "WAREHOUSE": f"file://{tmp_path}/warehouse"}
        for name, value in variables.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__LEEWAY__{name}", value)
        monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # pyiceberg reads the variables at import
        assert not check_lake().findings
        with psycopg.connect(address.replace("+psycopg", ""), autocommit=True) as database:
            for value in (1, 2, 1):
                write_day(value)
            old_location = Lake.open().catalog.load_table("leeway.t").metadata_location
            (task,) = Lake.open().catalog.load_table("leeway.t").scan().plan_files()
            Path(task.file.file_path.removeprefix("file://")).unlink()
            assert repair() == [("rows", "missing")]
            database.execute("DELETE FROM iceberg_tables")
            with pytest.raises(DataError, match="the catalog does not list the table t"):
                write_day(3)
            assert repair() == [("table", "unlisted")]
            database.execute("DROP TABLE iceberg_tables, iceberg_namespace_properties")
            with pytest.raises(DataError, match=r"the catalog is empty, but .* has tables"):
                Lake.open()
            assert repair() == [("table", "unlisted")]
            for value in (5, 6):
                write_day(value)
            database.execute("UPDATE iceberg_tables SET metadata_location = %s", (old_location,))
            assert repair() == [("table", "outdated")]
            assert Lake.open().read_partition("t", DAY)["value"][0].as_py() == 6
