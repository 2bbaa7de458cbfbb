"""Test sources of files: every format, every compression, and every file that is refused."""

import datetime as dt
import gzip
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources import FileSource, TrueFalse
from pipelines.window import Days

DAY = dt.date(2013, 1, 2)
COLUMNS = {"id": pa.int64(), "name": pa.string(), "price": pa.float64()}
CSV = "id,name,price\n1,a,1.5\n2,b,\n"
JSON = '{"id":1,"name":"a","price":1.5}\n{"id":2,"name":"b"}\n'
ROWS = [{"id": 1, "name": "a", "price": 1.5, "date": DAY}, {"id": 2, "name": "b", "price": None, "date": DAY}]


@pytest.fixture
def write_day(home: Path, tmp_path: Path) -> Callable[..., str]:
    """Return the function that writes the file of 2013-01-02 and returns the pattern of its name."""

    def write_file(content: str | bytes, suffix: str = "csv") -> str:
        path = tmp_path / f"2013-01-02.{suffix}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return f"{tmp_path}/{{date}}.{suffix}"

    return write_file


def read_rows(url: str, format: Any = "csv", **options: Any) -> list[dict[str, Any]]:
    return FileSource(url, format, **{"columns": COLUMNS, **options}).read(DAY).read_all().to_pylist()


def build_parquet(table: pa.Table | None = None) -> bytes:
    buffer = io.BytesIO()
    default_table = pa.table({"id": [1, 2], "name": ["a", "b"], "price": [1.5, None]})
    pq.write_table(default_table if table is None else table, buffer)
    return buffer.getvalue()


def build_zip(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_an_address_can_be_a_path(write_day: Callable[..., str]) -> None:
    source = FileSource(Path(write_day(CSV)), "csv", COLUMNS)
    assert source.read(DAY).read_all().to_pylist() == ROWS
    assert source == FileSource(write_day(CSV), "csv", COLUMNS) and pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize("url", [None, 7, b"rows.csv"])
def test_an_address_of_another_type_is_refused(url: Any) -> None:
    with pytest.raises(SpecError, match=r"^the address of a FileSource is .*: a text or a path is expected\.$"):
        FileSource(url, "csv", COLUMNS, day="id")


COMMAS = "id;name;price\n1;a;1,5\n2;b;\n"


def test_decimal_commas_are_read_and_named_where_they_are_not_expected(write_day: Callable[..., str]) -> None:
    url = write_day(COMMAS)
    assert read_rows(url, delimiter=";", decimal_point=",") == ROWS
    assert read_rows(url, delimiter=";", decimal_point=",", columns={})[0]["price"] == 1.5, "an inferred column"
    with pytest.raises(
        DataError, match=r"row 2, column price: '1,5' is not of type double\. If it is a decimal comma, set"
    ):
        read_rows(url, delimiter=";")
    with pytest.raises(DataError, match=r"row 2, column price: '1\.5' is not of type double\.$"):
        read_rows(write_day(COMMAS.replace("1,5", "1.5")), delimiter=";", decimal_point=",")
    with pytest.raises(SpecError, match=r"decimal_point='x' is not supported. Use '.' or ','"):
        FileSource(url, "csv", COLUMNS, decimal_point="x")


CONTENTS = {"csv": CSV.encode(), "json": JSON.encode(), "parquet": build_parquet()}


@pytest.mark.parametrize("format", CONTENTS)
def test_the_rows_of_a_day_have_the_declared_types_and_the_day(write_day: Any, format: str) -> None:
    reader = FileSource(write_day(CONTENTS[format], format), format, columns=COLUMNS).read(DAY)
    assert dict(zip(reader.schema.names, reader.schema.types, strict=True)) == {**COLUMNS, "date": pa.date32()}
    assert reader.read_all().to_pylist() == ROWS


@pytest.mark.parametrize("format", ["csv", "json"])
def test_compressed_files_are_decompressed(write_day: Any, format: str) -> None:
    content = CONTENTS[format]
    for compressed, suffix in (
        (gzip.compress(content), "gz"),
        (gzip.compress(content[:9]) + gzip.compress(content[9:]), "gz"),
        (pa.Codec("zstd").compress(content, asbytes=True), "zst"),
        (build_zip(inside=content.decode()), "zip"),
    ):
        assert read_rows(write_day(compressed, f"{format}.{suffix}"), format) == ROWS


@pytest.mark.parametrize("format", ["csv", "json"])
def test_refuses_a_compressed_file_that_is_cut(write_day: Any, format: str) -> None:
    content = CONTENTS[format] * 2000 if format == "json" else (CSV + "3,c,2.5\n" * 9000).encode()
    for compressed, suffix in (
        (gzip.compress(content), "gz"),
        (pa.Codec("zstd").compress(content, asbytes=True), "zst"),
        (build_zip(inside=content.decode()), "zip"),
    ):
        for incomplete in (compressed[: len(compressed) // 2], compressed[:-6]):
            url = write_day(incomplete, f"{format}.{suffix}")
            with pytest.raises(DataError, match=r"2013-01-02.*(truncated|damaged)"):
                read_rows(url, format)
        assert read_rows(write_day(compressed, f"{format}.{suffix}"), format)


CUT_CONTENTS = {
    "a number": ("csv", b"id,name,price\n1,a,1.5\n2,b,12.75\n"),
    "a number after CRLF": ("csv", b"id,name,price\r\n1,a,1.5\r\n2,b,12.75\r\n"),
    "text": ("csv", b"id,price,name\n1,1.5,a\n2,1.5,some text\n"),
    "text of several lines": ("csv", b'id,price,name\n1,1.5,a\n2,1.5,"one, \ntwo ""2"" \n\nthree"\n'),
    "JSON": ("json", b'{"id":1,"name":"a","price":1.5}\n{"id":2,"name":"b","price":12.75}\n'),
}


@pytest.mark.parametrize("case", CUT_CONTENTS)
def test_a_file_that_is_cut_at_any_byte_is_refused_or_gives_complete_rows(write_day: Any, case: str) -> None:
    format, content = CUT_CONTENTS[case]
    rows = read_rows(write_day(content, format), format)
    ends = [content.rstrip().rfind(b"{" if format == "json" else b"\n2,") + (format == "csv"), len(content)]
    for size in range(ends[0], len(content)):
        url = write_day(content[:size], format)
        # Not an error: the file ends with its first row, or its second row lacks only a part of its newline.
        if size == ends[0] or content[size:] in ((b"\n", b"") if format == "json" else (b"",)):
            assert read_rows(url, format) == rows[: 1 if size == ends[0] else 2]
        elif content[size - 1 :] == b"\r\n":
            assert read_rows(url, format) == rows
        else:
            with pytest.raises(DataError):
                read_rows(url, format)


def test_a_csv_without_a_final_newline_is_read_on_request(write_day: Any) -> None:
    with pytest.raises(DataError, match=r"does not end with a newline: '2,b,1'\..*final_newline=False"):
        read_rows(write_day("id,name,price\n1,a,1.5\n2,b,1"))
    assert len(read_rows(write_day("id,name,price\n1,a,1.5\n2,b,1"), final_newline=False)) == 2
    with pytest.raises(DataError, match="in the middle of a value"):
        read_rows(write_day('id,price,name\n1,1.5,a\n2,1,"b'), final_newline=False)


@pytest.mark.parametrize("name", ['5"', '"x,"', '"x\n"', '"a ""b"""'])
def test_quotes_at_the_end_of_a_complete_csv_are_no_cut(write_day: Any, name: str) -> None:
    assert len(read_rows(write_day(f"id,price,name\n1,1.5,{name}\n2,1,b\n"))) == 2
    assert len(read_rows(write_day(f"id,price,name\n2,1,b\n1,1.5,{name}\n"))) == 2


def test_refuses_a_file_with_a_wrong_suffix(write_day: Any) -> None:
    with pytest.raises(DataError, match="damaged"):
        read_rows(write_day(CSV, "csv.gz"))
    with pytest.raises(DataError, match="damaged"):
        read_rows(write_day(CSV, "csv.zip"))
    with pytest.raises(DataError, match=r"2 files in it: a, b"):
        read_rows(write_day(build_zip(a=CSV, b=CSV), "csv.zip"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,name,price\n1,a,1.5\nx2,b,1\n", r"row 3, column id: 'x2' is not of type int64"),
        ("id,name,price\n1,a,1.5\n" + "2,b,1\n" * 400_000 + "3,c,lots\n", r"row 400003, column price: 'lots' is no"),
        ("id;name;price\n1;a;1.5\n", r"lacks .* id, name, price. One column was found: .*If the delimiter is ';'"),
        ("id\tname\tprice\n1\ta\t1.5\n", r"If the delimiter is '\\t'"),
        ("id,name\n1,a\n", r"lacks the column\(s\) price. It has: 'id', 'name'"),
        ("id,name,price,id\n1,a,1,2\n", r"more than one column id"),
        ("id,name,price\n1,a,1.5\n2,b", r"Row #3: Expected 3 columns, got 2.*truncated"),
        ('id,name,price\n1,a,1.5\n2,"b', r"truncated"),
        ('id,price,name\n1,1.5,a\n2,1.5,"b', r"ends in the middle of a value.*truncated"),
        ("", "is empty: it has no header"),
        ("\n\n", "is empty"),
        ("id,name,price\n1,é,1\n".encode("latin-1"), r"row 2, column name.*encoding="),
        ("id,name,price\n1,é,1\n".encode("utf-16"), r"byte order mark of UTF-16"),
        ('id,name,price\n1,"a,1.5\n' + "2,b,1\n" * 400_000, "closing quote is missing"),
    ],
)  # fmt: skip
def test_refuses_a_csv_file_that_is_not_as_declared(write_day: Any, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_rows(write_day(content))
    assert "2013-01-02.csv" in error.value.message and len(str(error.value)) < 1_500
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    assert read_rows(write_day(CSV)) == ROWS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id":1,"name":"a","price":1.5}\n{"id":"x","name":"b","price":1}\n', r"line 2: column id: got a string"),
        ('{"id":1,"name":"a","price":1.5}\n' * 100_000 + '{"id":"x"}\n', r"line 100001: column id"),
        ('{"id":1,"name":"a","price":1.5}\n{"id":2,"name":"b","pr', r"line 2: .*complete"),
        ('{"id":1,"name":"a"}\n', r"lacks the column\(s\) price"),
        ('[{"id":1,"name":"a","price":1.5}]', "one object on each line"),
        ('{"id":1,"name":"é","price":1}\n'.encode("latin-1"), r"is not utf-8: byte 0xe9"),
        ('{"id":1,"name":"a","price":1.5}\n' * 100_000 + '{"id":2,"new":1}\n', r"a column that the first"),
        ('{"id":1,"name":"a","price":1.5,"x":{"y":1}}\n', r"column x is nested"),
    ],
)  # fmt: skip
def test_refuses_json_lines_that_are_not_as_declared(write_day: Any, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_rows(write_day(content, "json"), "json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (build_parquet()[: len(build_parquet()) // 2], "2013-01-02.parquet"),
        (build_parquet()[:-4] + b"XXXX", "2013-01-02.parquet"),
        (CSV.encode(), "2013-01-02.parquet"),
        (build_parquet(pa.table({"id": [1], "name": ["a"]})), r"lacks the column\(s\) price"),
        (build_parquet(pa.table({"id": ["1", "x"], "name": ["a", "b"], "price": [1, 2]})),
         r"row 2, column id: 'x' is no"),
        (build_parquet(pa.table({"id": [1, 1.5], "name": ["a", "b"], "price": [1, 2]})), r"row 2, column id: '1.5' is"),
        (build_parquet(pa.table({"id": [1], "name": ["a"], "price": [1.5], "at": [dt.datetime(2013, 1, 2)]})),
         r"row 1, column at: '2013-01-02 00:00:00' has no time zone"),
    ],
)  # fmt: skip
def test_refuses_a_parquet_file_that_is_not_as_declared(write_day: Any, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_rows(write_day(content, "parquet"), "parquet")


def test_refuses_a_parquet_file_with_damage_in_the_middle(write_day: Any) -> None:
    content = build_parquet(pa.table({"id": list(range(200_000)), "name": ["a"] * 200_000, "price": [1.5] * 200_000}))
    middle = len(content) // 3
    with pytest.raises(DataError, match=r"2013-01-02.parquet"):
        read_rows(write_day(content[:middle] + bytes(5_000) + content[middle + 5_000 :], "parquet"), "parquet")


def test_other_columns_keep_their_types_or_are_ignored(write_day: Any) -> None:
    content = "id,whole,part,yes,on,at,word,none\n1,2,2.5,true,2013-01-01,2013-01-01 05:00:00,w,\n"
    url = write_day(content)
    reader = FileSource(url, "csv", columns={"id": pa.int32()}).read(DAY)
    assert dict(zip(reader.schema.names, map(str, reader.schema.types), strict=True)) == {
        "id": "int32", "whole": "int64", "part": "double", "yes": "bool", "on": "date32[day]", "at": "string",
        "word": "string", "none": "string", "date": "date32[day]",
    }  # fmt: skip
    assert read_rows(url, columns={"id": pa.int32()}, extra="ignore") == [{"id": 1, "date": DAY}]
    url = write_day('{"id":1,"n":2,"at":"2013-01-01T05:00:00+02:00","s":null}\n', "json")
    assert read_rows(url, "json", columns={"id": pa.int32()}) == [
        {"id": 1, "n": 2, "at": "2013-01-01T05:00:00+02:00", "s": None, "date": DAY}
    ]
    assert read_rows(url, "json", columns={"id": pa.int32()}, extra="ignore") == [{"id": 1, "date": DAY}]


def test_encoding_delimiter_and_null_words_are_options(write_day: Any) -> None:
    content = "id;name;price\n1;é;NA\n"
    for encoding in ("latin-1", "utf-16", "cp1252"):
        rows = read_rows(write_day(content.encode(encoding)), encoding=encoding, delimiter=";", nulls=("", "NA"))
        assert rows == [{"id": 1, "name": "é", "price": None, "date": DAY}]
    with pytest.raises(DataError, match=r"is not ascii: byte 0xc3 near byte 16"):
        read_rows(write_day(content.encode()), encoding="ascii", delimiter=";")
    with pytest.raises(DataError, match=r"column price: 'NA' is not of type double"):
        read_rows(write_day(content.encode()), delimiter=";")
    with pytest.raises(SpecError, match="no encoding 'klingon'"):
        read_rows(write_day(content), encoding="klingon")


def test_a_letter_on_the_border_of_two_blocks_is_read_correctly(write_day: Any) -> None:
    content = "id,name,price\n" + "1,ééé,1\n" * 400_000
    reader = FileSource(write_day(content.encode("utf-16"), "csv"), "csv", columns=COLUMNS, encoding="utf-16").read(DAY)
    assert reader.read_all()["name"].unique().to_pylist() == ["ééé"]


TIMES = {"id": pa.int64(), "at": pa.timestamp("us", tz="UTC")}


def read_moments(write_day: Any, *texts: str, **options: Any) -> list[str]:
    url = write_day("id,at\n" + "".join(f"1,{text}\n" for text in texts))
    table = FileSource(url, "csv", columns=TIMES, **options).read(DAY).read_all()
    assert table["at"].type == pa.timestamp("us", tz="UTC")
    return [moment and moment.strftime("%m-%dT%H:%M") for moment in table["at"].to_pylist()]


def test_timestamps_become_utc(write_day: Any) -> None:
    texts = ("2013-01-02T05:00:00Z", "2013-01-02 05:00:00-05:00", "2013-01-02T05:00+0200", "", "2013-01-02T05:00-02")
    expected = ["01-02T05:00", "01-02T10:00", "01-02T03:00", None, "01-02T07:00"]
    assert read_moments(write_day, *texts) == expected
    options = {"timezone": "America/New_York"}
    assert read_moments(write_day, *texts, "2013-01-02 05:00:00", "2013-07-02", **options) == [
        *expected,
        "01-02T10:00",
        "07-02T04:00",
    ]


def test_refuses_timestamps_without_a_unique_moment(write_day: Any) -> None:
    options = {"timezone": "America/New_York"}
    with pytest.raises(DataError, match=r"row 3, column at: '2013-01-02 05:00:00' has no time zone. Set timezone="):
        read_moments(write_day, "2013-01-02 05:00:00Z", "2013-01-02 05:00:00")
    with pytest.raises(DataError, match=r"row 2, column at: '2013-03-10 02:30:00' is not on the clocks .*DST gap"):
        read_moments(write_day, "2013-03-10 02:30:00", **options)
    with pytest.raises(DataError, match=r"row 2, column at: '2013-11-03 01:30:00' occurs twice .*ambiguous="):
        read_moments(write_day, "2013-11-03 01:30:00", **options)
    with pytest.raises(DataError, match=r"row 3, column at: 'noon' is not of type timestamp"):
        read_moments(write_day, "2013-01-02 05:00:00Z", "noon", **options)
    assert read_moments(write_day, "2013-11-03 01:30:00", ambiguous="earliest", **options) == ["11-03T05:30"]
    assert read_moments(write_day, "2013-11-03 01:30:00", ambiguous="latest", **options) == ["11-03T06:30"]
    assert read_moments(write_day, "2013-11-03T01:30:00-05:00", **options) == ["11-03T06:30"]
    with pytest.raises(SpecError, match="no time zone 'Mars/Base'"):
        read_moments(write_day, "", timezone="Mars/Base")


def test_json_and_parquet_times_become_utc(write_day: Any) -> None:
    url = write_day('{"id":1,"at":"2013-01-02T05:00:00","on":"2013-01-02"}\n', "json")
    expected = [{"id": 1, "at": dt.datetime(2013, 1, 2, 10, tzinfo=dt.UTC), "on": DAY, "date": DAY}]
    columns = {**TIMES, "on": pa.date32()}
    assert read_rows(url, "json", columns=columns, timezone="America/New_York") == expected
    table = pa.table({"id": [1], "at": pa.array([dt.datetime(2013, 1, 2, 5)], pa.timestamp("ns")), "on": [DAY]})
    url = write_day(build_parquet(table), "parquet")
    assert read_rows(url, "parquet", columns=columns, timezone="America/New_York") == expected
    with pytest.raises(DataError, match="line 1: column on: got a number"):
        read_rows(write_day('{"id":1,"at":null,"on":5}\n', "json"), "json", columns=columns)


def test_one_file_of_many_days_is_read_by_its_column(home: Path, tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("id,at\n1,2013-01-02T05:00Z\n2,2013-01-03T23:59Z\n3,2013-01-02T20:00-05:00\n")
    source = FileSource(str(tmp_path / "all.csv"), "csv", columns=TIMES, day="at")
    second, third = dt.date(2013, 1, 2), dt.date(2013, 1, 3)
    assert source.list_partitions(Days(dt.date(2013, 1, 1), dt.date(2013, 12, 31))) == [second, third]
    assert source.list_partitions(Days(third, dt.date(2013, 12, 31))) == [third]
    assert [row["id"] for row in source.read(second).read_all().to_pylist()] == [1]
    rows = source.read(third).read_all().to_pylist()
    assert [row["id"] for row in rows] == [2, 3] and {row["date"] for row in rows} == {third}
    assert list(source.read(dt.date(2013, 1, 4))) == []
    (tmp_path / "all.csv").write_text("id,at\n1,2013-01-02T05:00Z\n2,\n")
    with pytest.raises(DataError, match=r"row 3, column at: an empty value names no day"):
        source.read(second).read_all()


def test_refuses_rows_of_another_day_in_the_file_of_a_day(write_day: Any) -> None:
    with pytest.raises(DataError, match=r"row 3, column at: .* is of the day 2013-01-03.*timezone"):
        read_rows(
            write_day("id,at\n1,2013-01-02 05:00\n2,2013-01-02 20:00\n"),
            columns=TIMES,
            day="at",
            timezone="America/New_York",
        )
    assert read_rows(write_day("id,date\n1,2013-01-02\n"), columns={"id": pa.int64()}) == [{"id": 1, "date": DAY}]
    with pytest.raises(DataError, match=r"row 2, column date: 2013-01-05 is of the day 2013-01-05"):
        read_rows(write_day("id,date\n1,2013-01-05\n"), columns={"id": pa.int64()})


def test_the_pattern_finds_the_days(home: Path, tmp_path: Path) -> None:
    for name in ("2013/01/02/a.csv", "2013/01/02/b.csv", "2013/01/04/a.csv", "2012/01/02/a.csv", "2013/01/xx/a.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"id,name,price\n1,{path.stem},1\n")
    source = FileSource(f"file://{tmp_path}/{{date:%Y/%m/%d}}/*.csv", "csv", columns=COLUMNS)
    days = Days(dt.date(2013, 1, 1), dt.date(2013, 1, 31))
    assert source.list_partitions(days) == [DAY, dt.date(2013, 1, 4)]
    assert source.read(DAY).read_all()["name"].to_pylist() == ["a", "b"]
    with pytest.raises(DataError, match=r"there is no .*2013/01/03"):
        source.read(dt.date(2013, 1, 3)).read_all()
    with pytest.raises(DataError, match=r"there is no .*2013-01-03.csv"):
        FileSource(f"{tmp_path}/{{date}}.csv", "csv").read(dt.date(2013, 1, 3))


def test_refuses_files_of_a_day_with_different_columns(home: Path, tmp_path: Path) -> None:
    (tmp_path / "2013-01-02-a.csv").write_text("id,x\n1,2\n")
    (tmp_path / "2013-01-02-b.csv").write_text("id\n1\n")
    with pytest.raises(DataError, match=r"only some of the files have the column\(s\) x"):
        read_rows(f"{tmp_path}/{{date}}-*.csv", columns={"id": pa.int64()})
    assert len(read_rows(f"{tmp_path}/{{date}}-*.csv", columns={"id": pa.int64()}, extra="ignore")) == 2


def test_a_file_with_only_a_header_is_an_empty_day(write_day: Any) -> None:
    empty = build_parquet(pa.schema(list(COLUMNS.items())).empty_table())
    for content, format in ((b"id,name,price\n", "csv"), (b"", "json"), (empty, "parquet")):
        reader = FileSource(write_day(content, format), format, columns=COLUMNS).read(DAY)
        assert reader.schema.names == ["id", "name", "price", "date"] and list(reader) == []


def test_refuses_invalid_options_when_the_source_is_created() -> None:
    for options in ({"format": "xml"}, {"url": "/x.csv"}, {"day": "at", "extra": "ignore"}, {"timezone": "Mars"}):
        with pytest.raises(SpecError):
            FileSource(**{"url": "/{date}.csv", "format": "csv", **options})


def test_a_description_does_not_contain_the_secrets_of_an_address() -> None:
    source = FileSource("https://me:secret@host:1/{date}.csv?token=secret#secret", "csv")
    assert source.describe().location == "https://host:1/{date}.csv?..."
    assert "secret" not in repr(source) + repr(source.describe())


def test_dates_in_declared_formats_are_read_beside_iso_dates(write_day: Callable[..., str]) -> None:
    url = write_day("at,id\n2013-01-02,1\n02.01.2013,2\n2.1.2013 10:30,3\n,4\n")
    formats = ("%d.%m.%Y", "%d.%m.%Y %H:%M")
    columns = {"at": pa.timestamp("us", tz="UTC"), "id": pa.int64()}
    rows = read_rows(url, columns=columns, timezone="UTC", time_formats=formats)
    midnight = dt.datetime(2013, 1, 2, tzinfo=dt.UTC)
    assert [row["at"] for row in rows] == [midnight, midnight, midnight.replace(hour=10, minute=30), None]
    with pytest.raises(DataError, match=r"column at: '02\.01\.2013' is not of type timestamp"):
        read_rows(url, columns=columns, timezone="UTC", time_formats=("%m/%d/%Y",))


def test_two_texts_become_true_and_false_and_a_third_is_refused(write_day: Callable[..., str]) -> None:
    def read_truths(content: str) -> list[dict[str, Any]]:
        source = FileSource(write_day(content), "csv", columns={"late": pa.string()})
        return TrueFalse(source, "late", true="yes", false="no").read(DAY).read_all().to_pylist()

    assert [row["late"] for row in read_truths('late\nyes\nno\n""\n')] == [True, False, None]
    with pytest.raises(DataError, match="column late: 'perhaps' is neither 'yes' nor 'no'"):
        read_truths("late\nyes\nperhaps\n")
