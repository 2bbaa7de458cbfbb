"""Test the source that reads a database: a real PostgreSQL server, and SQLite."""

import datetime as dt
import sqlite3
import traceback
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.ingestion.sources import SqlChanges, SqlSource
from pipelines.ingestion.sources.convert import UTC
from pipelines.lake import Lake
from pipelines.window import Days

DAY = dt.date(2013, 1, 2)
YEAR = Days(dt.date(2013, 1, 1), dt.date(2013, 12, 31))
ALL_TYPES = """
CREATE TABLE kinds (id int PRIMARY KEY, small smallint, big bigint, part real, whole double precision,
  price numeric(10, 2), free numeric, yes boolean, at timestamptz, day date, clock time, name text, code varchar(3),
  tree jsonb, raw json,  mark uuid, bytes bytea, list int[], span interval);
INSERT INTO kinds VALUES (1, 2, 3, 1.5, 2.5, 10.25, 0.125, true, '2013-01-02 05:00:00-05',
  '2013-01-02', '05:00', 'é', 'abc',
  '{"a": 1}', '[1]', '00000000-0000-0000-0000-000000000001', 'x', '{1,2}', '1 day'),
  (2, null, null, null, null, null, null, null, null,
  '2013-01-02', null, null, null, null, null, null, null, null, null);
"""


def execute(engine: sa.Engine, statements: str) -> None:
    """Execute statements that a semicolon and a line break separate."""
    with engine.connect() as connection:
        for statement in statements.split(";\n"):
            if statement.strip():
                connection.execute(sa.text(statement.replace(":", "\\:")))


@pytest.fixture
def source(home: Path, postgres: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the function that creates a source of the PostgreSQL server."""
    monkeypatch.setenv("SALES_DB_URL", postgres.url.render_as_string(hide_password=False))
    return lambda **options: SqlSource(**{"url_env": "SALES_DB_URL", "table": "sales", **options})


@pytest.fixture
def sales(postgres: sa.Engine) -> sa.Engine:
    """Create the table `sales`, with 60,000 rows of one day, on the PostgreSQL server."""
    execute(postgres, "CREATE TABLE sales (id int PRIMARY KEY, date date, name text)")
    execute(postgres, "INSERT INTO sales SELECT n, '2013-01-02', 'row ' || n FROM generate_series(1, 60000) AS n")
    return postgres


def test_each_type_of_postgresql_becomes_a_type_of_arrow(source: Any, postgres: sa.Engine) -> None:
    execute(postgres, ALL_TYPES)
    table = source(table="kinds", day="day").read(DAY).read_all()
    assert {name: str(kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)} == {
        "id": "int32", "small": "int32", "big": "int64", "part": "float", "whole": "double",
        "price": "decimal128(10, 2)", "free": "decimal128(38, 18)", "yes": "bool",
        "at": "timestamp[us, tz=UTC]", "day": "date32[day]", "clock": "time64[us]",
        "name": "string", "code": "string", "tree": "string", "raw": "string", "mark": "string",
        "bytes": "binary", "list": "string", "span": "string", "date": "date32[day]",
    }  # fmt: skip
    first, second = table.to_pylist()
    assert first == {
        "id": 1, "small": 2, "big": 3, "part": 1.5, "whole": 2.5, "price": Decimal("10.25"), "free": Decimal("0.125"),
        "yes": True, "at": dt.datetime(2013, 1, 2, 10, tzinfo=dt.UTC), "day": DAY, "clock": dt.time(5), "name": "é",
        "code": "abc", "tree": '{"a": 1}', "raw": "[1]", "mark": "00000000-0000-0000-0000-000000000001", "bytes": b"x",
        "list": "[1, 2]", "span": "1 day, 0:00:00", "date": DAY,
    }  # fmt: skip
    assert {value for name, value in second.items() if name not in ("id", "day", "date")} == {None}


def test_a_day_is_read_in_batches_and_in_order(source: Any, sales: sa.Engine) -> None:
    batches = list(source().read(DAY))
    assert [batch.num_rows for batch in batches] == [10_000] * 6
    assert pa.Table.from_batches(batches)["id"].to_pylist() == list(range(1, 60_001))
    names = source(order_by=("name",)).read(DAY).read_all()["name"].to_pylist()
    assert names == sorted(names)
    assert list(source().read(dt.date(2013, 1, 3))) == []
    execute(sales, "CREATE TABLE keyless AS SELECT * FROM sales")
    with pytest.raises(SpecError, match="no primary key"):
        source(table="keyless").read(DAY).read_all()


def test_a_partition_is_a_day_in_utc_for_each_type_of_column(source: Any, postgres: sa.Engine) -> None:
    execute(
        postgres,
        """CREATE TABLE sales (id int PRIMARY KEY, at timestamptz, local timestamp);
        INSERT INTO sales VALUES (1, '2013-01-02 18:59-05', '2013-01-02 18:59'),
        (2, '2013-01-02 19:00-05', '2013-01-02 19:00'),
        (3, null, null), (4, '2013-07-02 21:00-04', '2013-07-02 21:00')""",
    )
    days = [DAY, dt.date(2013, 1, 3), dt.date(2013, 7, 3)]
    for day in ("at", "local"):
        zoned_source = source(day=day, timezone="America/New_York")
        assert zoned_source.list_partitions(YEAR) == days
        assert zoned_source.list_partitions(Days(days[1], days[1])) == [days[1]]
        assert [zoned_source.read(partition).read_all()["id"].to_pylist() for partition in days] == [[1], [2], [4]]
        assert zoned_source.read(DAY).read_all()["at"][0].as_py() == dt.datetime(2013, 1, 2, 23, 59, tzinfo=dt.UTC)
    with pytest.raises(DataError, match=r"row 1, column local: .* has no time zone"):
        source(day="at").read(DAY).read_all()
    execute(postgres, "INSERT INTO sales VALUES (5, '2013-03-10 12:00Z', '2013-03-10 02:30')")
    with pytest.raises(DataError, match=r"column local: '2013-03-10 02:30:00' is not on the clocks .*DST gap"):
        source(day="at", timezone="America/New_York").read(dt.date(2013, 3, 10)).read_all()


def test_queries_can_contain_colons_and_percent_signs_and_names_are_quoted(source: Any, postgres: sa.Engine) -> None:
    execute(
        postgres,
        """CREATE TABLE "Sales; DROP" (id int PRIMARY KEY, date date, "the ""Name" text);
        INSERT INTO "Sales; DROP" VALUES (1, '2013-01-02', 'a:b'), (2, '2013-01-02', '50%')""",
    )
    rows = source(table="Sales; DROP").read(DAY).read_all().to_pylist()
    assert rows[0] == {"id": 1, "date": DAY, 'the "Name': "a:b"}
    assert source(table="public.Sales; DROP").list_partitions(YEAR) == [DAY]
    query = """SELECT id::bigint, date, "the ""Name" AS name FROM "Sales; DROP" WHERE "the ""Name" IN ('a:b', ' :x')
        OR "the ""Name" LIKE '5%';"""
    query_source = source(table="", query=query, order_by=("id",))
    assert query_source.read(DAY).read_all().to_pylist() == [
        {"id": 1, "date": DAY, "name": "a:b"},
        {"id": 2, "date": DAY, "name": "50%"},
    ]
    assert query_source.list_partitions(YEAR) == [DAY]


def test_declared_columns_must_exist_and_have_their_types(source: Any, sales: sa.Engine) -> None:
    declared_columns = {"name": pa.string(), "id": pa.int64(), "date": pa.date32()}
    assert source(columns=declared_columns).read(DAY).schema == pa.schema(list(declared_columns.items()))
    with pytest.raises(DataError, match=r"lacks the column\(s\) price. It has: 'id', 'date', 'name'"):
        source(columns={**declared_columns, "price": pa.float64()}).read(DAY)
    with pytest.raises(DataError, match=r"row 1, column name: 'row 1' is not of type int64"):
        source(columns={**declared_columns, "name": pa.int64()}).read(DAY).read_all()
    with pytest.raises(DataError, match=r"row 32768, column id: '32768' is not of type int16"):
        source(columns={**declared_columns, "id": pa.int16()}).read(DAY).read_all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "nosuch"}, 'relation "nosuch" does not exist'),
        ({"table": "", "query": "SELEC 1"}, "syntax error"),
        ({"day": "nosuch"}, "lacks the column nosuch"),
        ({"order_by": ("nosuch",)}, 'column "nosuch" does not exist'),
    ],
)
def test_a_missing_table_or_column_is_bad_data(
    source: Any, sales: sa.Engine, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        source(**options).read(DAY).read_all()


def test_nothing_is_written_to_the_database(source: Any, sales: sa.Engine) -> None:
    execute(sales, "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'DELETE FROM sales RETURNING 1'")
    with pytest.raises(DataError, match="read-only transaction"):
        source(table="", query="SELECT f() AS id, DATE '2013-01-02' AS date", order_by=("id",)).read(DAY).read_all()
    assert source().read(DAY).read_all().num_rows == 60_000


def test_a_dropped_connection_does_not_change_the_lake(source: Any, sales: sa.Engine) -> None:
    lake = Lake.open()
    before = lake.write_partition(
        "sales_raw", DAY, pa.table({"id": pa.array([1], pa.int32()), "date": [DAY], "name": ["old"]})
    )
    reader = source().read(DAY)
    batches = iter(reader)

    def drop_connection_after_first_batch() -> Any:
        yield next(batches)
        execute(
            sales,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND usename = 'leeway'",
        )
        yield from batches

    with pytest.raises(ServiceError, match="dropped the connection") as error:
        lake.write_partition(
            "sales_raw", DAY, pa.RecordBatchReader.from_batches(reader.schema, drop_connection_after_first_batch())
        )
    assert error.value.exit_code == 75
    assert "p@ss" not in str(error.value) and "p%40ss" not in "".join(traceback.format_exception(error.value))
    assert lake.read_partition("sales_raw", DAY)["name"].to_pylist() == ["old"]
    retry = lake.write_partition("sales_raw", DAY, source().read(DAY))
    assert (retry.changed, retry.rows, retry.snapshot_id != before.snapshot_id) == (True, 60_000, True)
    assert not lake.write_partition("sales_raw", DAY, source().read(DAY)).changed


def test_a_missing_server_is_a_service_error(home: Path, free_port: Any) -> None:
    missing_server = SqlSource(table="sales", url=f"postgresql+psycopg://me:secret@127.0.0.1:{free_port()}/postgres")
    with pytest.raises(ServiceError, match="refused") as error:
        missing_server.list_partitions(YEAR)
    assert "secret" not in str(error.value)


def test_a_wrong_password_or_database_is_a_spec_error(source: Any, postgres: sa.Engine) -> None:
    for url in (postgres.url.set(password="hunter2"), postgres.url.set(database="nosuch")):
        with pytest.raises(SpecError, match=r"refuses the connection.*(authentication failed|does not exist)") as error:
            source(url_env="", url=url.render_as_string(hide_password=False)).list_partitions(YEAR)
        assert "hunter2" not in str(error.value)


def test_messages_contain_no_secret(source: Any, postgres: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres.url.render_as_string(hide_password=False)
    for secret_source in (source(), source(url_env="", url=url)):
        assert (
            "p@ss" not in f"{secret_source!r}{secret_source.describe()}"
            and "p%40ss" not in f"{secret_source!r}{secret_source.describe()}"
        )
        assert "sales" in secret_source.describe().location
    for wrong_url in (
        "postgresql+psycopg//x:hunter2@h/d",
        "postgresql+psycopg://x:hun/ter2@h:p/d",
        "mysql://x:hunter2@h/d",
        "",
    ):
        monkeypatch.setenv("SALES_DB_URL", wrong_url)
        with pytest.raises(SpecError, match="SALES_DB_URL") as error:
            source().list_partitions(YEAR)
        assert "hunter2" not in str(error.value) and "ter2" not in str(error.value)
    for options in ({"query": "SELECT 1"}, {"url": "sqlite://"}, {"columns": {}}, {"timezone": "Mars"}):
        with pytest.raises(SpecError):
            source(**options)


@pytest.mark.parametrize("kind", ["bigserial", "timestamptz"])
def test_changes_are_in_the_order_of_the_cursor(source: Any, postgres: sa.Engine, kind: str) -> None:
    value = "n" if kind == "bigserial" else "timestamptz '2013-01-01 00:00:00.5Z' + n * interval '1 hour'"
    execute(postgres, f"CREATE TABLE sales (id int PRIMARY KEY, date date, seen {kind})")
    execute(postgres, f"INSERT INTO sales SELECT 100 - n, '2013-01-02', {value} FROM generate_series(1, 50) AS n")
    changes = SqlChanges(url_env="SALES_DB_URL", table="sales", cursor="seen")
    first = changes.read_changes(None).read_all()
    assert first["id"].to_pylist() == [100 - n for n in range(1, 51)]
    for position in (10, 49):
        since = first["seen"][position].as_py()
        text = since.isoformat() if kind == "timestamptz" else str(since)
        assert changes.read_changes(text).read_all()["id"].to_pylist() == [100 - n for n in range(position + 2, 51)]
    with pytest.raises(SpecError, match="the watermark 'noon' is not of type"):
        changes.read_changes("noon")
    with pytest.raises(SpecError, match="cursor="):
        SqlChanges(url_env="SALES_DB_URL", table="sales")
    with pytest.raises(DataError, match="lacks the column nosuch, the cursor"):
        SqlChanges(url_env="SALES_DB_URL", table="sales", cursor="nosuch").read_changes(None)


@pytest.fixture
def sqlite_file(home: Path, tmp_path: Path) -> Path:
    """Create a SQLite database with three sales; return its path."""
    with sqlite3.connect(tmp_path / "sales.db") as connection:
        connection.execute(
            "CREATE TABLE sales (id INTEGER PRIMARY KEY, date DATE, at TIMESTAMP, price NUMERIC(8,2), yes BOOLEAN)"
        )
        connection.executemany(
            "INSERT INTO sales VALUES (?, ?, ?, ?, ?)",
            [
                (1, "2013-01-02", "2013-01-02 18:59:00", 1.25, 1),
                (2, "2013-01-02", "2013-01-02T19:00:00", 2, 0),
                (3, "2013-01-03", "2013-01-03T00:30:00Z", None, None),
            ],
        )
    connection.close()
    return tmp_path / "sales.db"


def test_sqlite_is_read_day_by_day(sqlite_file: Path) -> None:
    table_source = SqlSource(url=f"sqlite:///{sqlite_file}", table="sales", timezone="America/New_York")
    assert table_source.list_partitions(YEAR) == [DAY, dt.date(2013, 1, 3)]
    table = table_source.read(DAY).read_all()
    assert table.schema.field("at").type == UTC and table.schema.field("price").type == pa.decimal128(8, 2)
    assert table.to_pylist()[0] == {
        "id": 1, "date": DAY, "at": dt.datetime(2013, 1, 2, 23, 59, tzinfo=dt.UTC),
        "price": Decimal("1.25"), "yes": True,
    }  # fmt: skip
    columns = {"id": pa.int64(), "at": UTC}
    time_source = SqlSource(
        url=f"sqlite:///{sqlite_file}", table="sales", day="at", columns=columns, timezone="America/New_York"
    )
    assert time_source.list_partitions(YEAR) == [DAY, dt.date(2013, 1, 3)]
    assert [time_source.read(day).read_all()["id"].to_pylist() for day in (DAY, dt.date(2013, 1, 3))] == [[1], [2, 3]]
    options: Any = {"day": "at", "columns": columns, "order_by": ["id"], "timezone": "UTC"}
    query_source = SqlSource(url=f"sqlite:///{sqlite_file}", query="SELECT id, at FROM sales", **options)
    assert query_source.read(DAY).read_all()["id"].to_pylist() == [1, 2]
    changes = SqlChanges(url=f"sqlite:///{sqlite_file}", table="sales", cursor="id", timezone="UTC")
    assert changes.read_changes("1").read_all()["id"].to_pylist() == [2, 3]


def test_values_that_sqlite_does_not_check_are_checked(sqlite_file: Path) -> None:
    with sqlite3.connect(sqlite_file) as connection:
        connection.execute("INSERT INTO sales VALUES (4, '2013-01-04', '2013-01-04 00:00:00', 'cheap', 1)")
        connection.execute("INSERT INTO sales VALUES (5, '2013-01-05', '2013-01-05 00:00:00', 1, 2)")
    connection.close()
    table_source = SqlSource(url=f"sqlite:///{sqlite_file}", table="sales", timezone="UTC")
    with pytest.raises(DataError, match="row 1, column price: 'cheap' is not of type decimal"):
        table_source.read(dt.date(2013, 1, 4)).read_all()
    with pytest.raises(DataError, match="row 1, column yes: '2' is not of type bool"):
        table_source.read(dt.date(2013, 1, 5)).read_all()
    assert table_source.read(DAY).read_all().num_rows == 2
    for options, message in (
        ({"table": "nosuch"}, "no such table"),
        ({"columns": {"No Such": pa.string(), "date": pa.date32()}}, "lacks the column"),
        ({"table": "", "query": "SELECT 1", "columns": {"date": pa.date32()}, "order_by": ["date"]}, "no such column"),
    ):
        with pytest.raises(DataError, match=message):
            SqlSource(**{"url": f"sqlite:///{sqlite_file}", "table": "sales", **options}).read(DAY).read_all()
    with pytest.raises(DataError, match="no SQLite database"):
        SqlSource(url=f"sqlite:///{sqlite_file}.gone", table="sales").list_partitions(YEAR)
    assert not Path(f"{sqlite_file}.gone").exists()
    sqlite_file.write_bytes(b"no database at all" * 100)
    with pytest.raises(DataError, match="not a database"):
        table_source.list_partitions(YEAR)


@pytest.mark.parametrize("kind", ["NUM", "REAL", "BOOLEAN", "DATE"])
def test_a_day_column_with_an_unsuitable_type_is_named(sqlite_file: Path, kind: str) -> None:
    """`CREATE TABLE AS` of SQLite creates such types. The check needs no row."""
    with sqlite3.connect(sqlite_file) as connection:
        connection.execute(f"CREATE TABLE days (id INT PRIMARY KEY, day {kind})")
    changes = SqlChanges(url=f"sqlite:///{sqlite_file}", table="days", day="day", cursor="id")
    if kind == "DATE":
        assert changes.read_changes(None).read_all().num_rows == 0
        return
    with pytest.raises(DataError, match=r"column day: cannot convert \w+(\(.*\))? to date32\[day\]") as error:
        changes.read_changes(None)
    assert "columns=" in str(error.value)
