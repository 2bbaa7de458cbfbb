"""Files on the web and in S3."""

import datetime as dt
import gzip
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError
from pipelines.ingestion.sources import FileSource
from pipelines.lake import Lake
from pipelines.window import Days

DAY = dt.date(2013, 1, 2)
COLUMNS = {"id": pa.int64()}
ROWS = [{"id": 1, "date": DAY}, {"id": 2, "date": DAY}]
CSV = "id\n1\n2\n"


def rows(url: str, format: Any = "csv") -> list[dict[str, Any]]:
    return FileSource(url, format, columns=COLUMNS).read(DAY).read_all().to_pylist()


def parquet(number: int = 2) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(1, number + 1))}), buffer)
    return buffer.getvalue()


def test_a_file_on_the_web_is_read(home: Path, site: Any, says: Any) -> None:
    for content, name in ((CSV, "csv"), (gzip.compress(CSV.encode()), "csv.gz"), (parquet(), "parquet")):
        site.does(says(content))
        assert rows(f"{site.url}/{{date}}.{name}", name[:3] if name[0] == "c" else name) == ROWS
        assert site.asked[0][0] == f"/2013-01-02.{name}"
    assert list((home / "tmp").iterdir()) == []


def test_a_server_that_stops_in_the_middle_is_asked_again(home: Path, site: Any, says: Any, waits: list[float]) -> None:
    lake, url = Lake.open(), f"{site.url}/{{date}}.csv?token=secret"
    source = FileSource(url, "csv", columns=COLUMNS)
    site.does(says("id\n7\n"))
    lake.write_partition("raw", DAY, source.read(DAY))
    whole = "id\n" + "1\n" * 3_000_000
    site.does(says(whole, half=True))
    with pytest.raises(ServiceError, match="stops in the middle, 5 times") as caught:
        lake.write_partition("raw", DAY, source.read(DAY))
    assert caught.value.exit_code == 75 and "secret" not in str(caught.value) and len(waits) == 4
    assert lake.read_partition("raw", DAY)["id"].to_pylist() == [7]
    site.does(says(whole, half=True), says(whole, half=True), says(whole))
    assert lake.write_partition("raw", DAY, source.read(DAY)).rows == 3_000_000
    assert len(site.asked) == 3 and list((home / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("code", "kind", "times"),
    [(404, DataError, 1), (410, DataError, 1), (400, DataError, 1), (401, SpecError, 1), (403, SpecError, 1),
     (408, ServiceError, 5), (429, ServiceError, 5), (500, ServiceError, 5), (503, ServiceError, 5)],
)  # fmt: skip
def test_what_may_pass_is_tried_again_and_nothing_else(
    home: Path, site: Any, says: Any, waits: list[float], code: int, kind: type[LeewayError], times: int
) -> None:
    site.does(says(code=code))
    with pytest.raises(kind, match=str(code) if code not in (404, 410) else "there is no"):
        rows(f"{site.url}/{{date}}.csv")
    assert len(site.asked) == times == len(waits) + 1
    site.does(says(code=500), says(code=503), says(CSV))
    assert rows(f"{site.url}/{{date}}.csv") == ROWS


def test_a_server_says_when_to_come_back(home: Path, site: Any, says: Any, waits: list[float]) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    site.does(says(code=429, Retry_After="7"), says(code=503, Retry_After=later), says(CSV))
    assert rows(f"{site.url}/{{date}}.csv") == ROWS
    assert waits[0] == 7 and 50 < waits[1] <= 60
    site.does(says(code=429, Retry_After="3600"))
    with pytest.raises(ServiceError, match="asks to wait 3600 s"):
        rows(f"{site.url}/{{date}}.csv")
    assert len(site.asked) == 1


def test_days_on_the_web_are_asked_for_one_by_one(home: Path, site: Any, says: Any, waits: list[float]) -> None:
    source, days = FileSource(f"{site.url}/{{date}}.csv", "csv"), Days(dt.date(2013, 1, 1), dt.date(2013, 1, 3))
    site.does(says(code=404), says(CSV), says(code=404))
    assert source.partitions(days) == [DAY]
    site.does(says(code=404), says(code=500))
    with pytest.raises(ServiceError, match="500, 5 times"):
        source.partitions(days)


def test_nobody_there(home: Path, free_port: Any, waits: list[float]) -> None:
    with pytest.raises(ServiceError, match="does not answer"):
        rows(f"http://me:secret@127.0.0.1:{free_port()}/{{date}}.csv")
    with pytest.raises(SpecError, match="lists no files"):
        rows("http://127.0.0.1/{date}-*.csv")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(home: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    import boto3
    import s3fs

    given = {"ENDPOINT_URL": endpoint, "DEFAULT_REGION": "us-east-1", "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}
    for name, value in given.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    s3fs.S3FileSystem.clear_instance_cache()
    made = boto3.resource("s3").Bucket("shop")
    made.create()
    yield made
    made.objects.delete()
    made.delete()


def test_files_in_s3_are_found_and_read(bucket: Any) -> None:
    for name, content in {
        "2013/01/02/a.csv.gz": gzip.compress(b"id\n1\n"),
        "2013/01/02/b.csv.gz": gzip.compress(b"id\n2\n"),
        "2013/01/04/a.csv.gz": gzip.compress(b"id\n3\n"),
    }.items():
        bucket.put_object(Key=f"in/{name}", Body=content)
    source = FileSource("s3://shop/in/{date:%Y/%m/%d}/*.csv.gz", "csv", columns=COLUMNS)
    assert source.partitions(Days(dt.date(2013, 1, 1), dt.date(2013, 1, 31))) == [DAY, dt.date(2013, 1, 4)]
    assert source.read(DAY).read_all().to_pylist() == ROWS
    assert source.describe().location == "s3://shop/in/{date:%Y/%m/%d}/*.csv.gz"
    bucket.put_object(Key="in/2013/01/05/a.csv.gz", Body=gzip.compress(b"id\n3\n"))
    assert source.partitions(Days(dt.date(2013, 1, 5), dt.date(2013, 1, 31))) == [dt.date(2013, 1, 5)]


def test_a_large_object_is_read_in_pieces(bucket: Any) -> None:
    bucket.put_object(Key="2013-01-02.parquet", Body=parquet(6_000_000))
    reader = FileSource("s3://shop/{date}.parquet", "parquet", columns=COLUMNS).read(DAY)
    assert sum(batch.num_rows for batch in reader) == 6_000_000


def test_what_s3_has_not_is_refused(bucket: Any) -> None:
    with pytest.raises(DataError, match=r"there is no s3://shop/2013-01-02.csv"):
        rows("s3://shop/{date}.csv")
    for url in ("s3://nosuch/{date}.csv", "s3://shop/{date}-*.csv"):
        with pytest.raises(DataError, match="there is no s3://"):
            rows(url)
    bucket.put_object(Key="2013-01-02.parquet", Body=b"")
    with pytest.raises(DataError, match=r"is empty \(0 bytes\)"):
        rows("s3://shop/{date}.parquet", "parquet")
    bucket.put_object(Key="2013-01-02.csv", Body=CSV.encode())
    assert rows("s3://shop/{date}.csv") == ROWS


def test_an_object_that_is_replaced_while_it_is_read_is_read_again_later(bucket: Any) -> None:
    whole = "id\n" + f"1{' ' * 999}\n" * 80_000
    bucket.put_object(Key="2013-01-02.csv", Body=whole.encode())
    reader = FileSource("s3://shop/{date}.csv", "csv", columns=COLUMNS).read(DAY)
    reader.read_next_batch()
    bucket.put_object(Key="2013-01-02.csv", Body=whole.replace("1", "2").encode())
    with pytest.raises(ServiceError, match="cannot be read now"):
        reader.read_all()


def test_an_endpoint_that_is_not_there_or_credentials_that_are_not(
    home: Path, monkeypatch: pytest.MonkeyPatch, free_port: Any
) -> None:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SpecError, match="no AWS credentials"):
        rows("s3://shop/{date}.csv")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    with pytest.raises(ServiceError, match="does not answer"):
        rows("s3://shop/{date}.csv")
