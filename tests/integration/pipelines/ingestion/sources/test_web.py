"""Test the source of files on a web server and in S3."""

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
from pipelines.scaffold.sampling import files as sampling
from pipelines.window import Days

DAY = dt.date(2013, 1, 2)
COLUMNS = {"id": pa.int64()}
ROWS = [{"id": 1, "date": DAY}, {"id": 2, "date": DAY}]
CSV = "id\n1\n2\n"


def read_rows(url: str, format: Any = "csv") -> list[dict[str, Any]]:
    return FileSource(url, format, columns=COLUMNS).read(DAY).read_all().to_pylist()


def create_parquet(number: int = 2) -> bytes:
    """Return a Parquet file with ids from 1 to `number`."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(1, number + 1))}), buffer)
    return buffer.getvalue()


def test_a_file_on_the_web_is_read(home: Path, site: Any, create_response: Any) -> None:
    for content, name in ((CSV, "csv"), (gzip.compress(CSV.encode()), "csv.gz"), (create_parquet(), "parquet")):
        site.set_responses(create_response(content))
        assert read_rows(f"{site.url}/{{date}}.{name}", name[:3] if name[0] == "c" else name) == ROWS
        assert site.requests[0][0] == f"/2013-01-02.{name}"
    assert list((home / "tmp").iterdir()) == []


def test_an_incomplete_response_is_requested_again(
    home: Path, site: Any, create_response: Any, pauses: list[float]
) -> None:
    lake, url = Lake.open(), f"{site.url}/{{date}}.csv?token=secret"
    source = FileSource(url, "csv", columns=COLUMNS)
    site.set_responses(create_response("id\n7\n"))
    lake.write_partition("raw", DAY, source.read(DAY))
    content = "id\n" + "1\n" * 3_000_000
    site.set_responses(create_response(content, is_half=True))
    with pytest.raises(ServiceError, match="stops in the middle of its response, 5 times") as error:
        lake.write_partition("raw", DAY, source.read(DAY))
    assert error.value.exit_code == 75 and "secret" not in str(error.value) and len(pauses) == 4
    assert lake.read_partition("raw", DAY)["id"].to_pylist() == [7]
    site.set_responses(
        create_response(content, is_half=True), create_response(content, is_half=True), create_response(content)
    )
    assert lake.write_partition("raw", DAY, source.read(DAY)).rows == 3_000_000
    assert len(site.requests) == 3 and list((home / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("code", "error_type", "times"),
    [(404, DataError, 1), (410, DataError, 1), (400, DataError, 1), (401, SpecError, 1), (403, SpecError, 1),
     (408, ServiceError, 5), (429, ServiceError, 5), (500, ServiceError, 5), (503, ServiceError, 5)],
)  # fmt: skip
def test_only_errors_that_may_pass_are_retried(
    home: Path,
    site: Any,
    create_response: Any,
    pauses: list[float],
    code: int,
    error_type: type[LeewayError],
    times: int,
) -> None:
    site.set_responses(create_response(code=code))
    with pytest.raises(error_type, match=str(code) if code not in (404, 410) else "there is no"):
        read_rows(f"{site.url}/{{date}}.csv")
    assert len(site.requests) == times == len(pauses) + 1
    site.set_responses(create_response(code=500), create_response(code=503), create_response(CSV))
    assert read_rows(f"{site.url}/{{date}}.csv") == ROWS


def test_a_redirect_loop_is_not_retried(home: Path, site: Any, create_response: Any, pauses: list[float]) -> None:
    site.set_responses(create_response(code=302, Location="/again.csv"))
    with pytest.raises(DataError, match="redirects more than 30 times"):
        read_rows(f"{site.url}/{{date}}.csv")
    assert not pauses


def test_the_pause_follows_retry_after(home: Path, site: Any, create_response: Any, pauses: list[float]) -> None:
    later_time = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    site.set_responses(
        create_response(code=429, Retry_After="7"),
        create_response(code=503, Retry_After=later_time),
        create_response(CSV),
    )
    assert read_rows(f"{site.url}/{{date}}.csv") == ROWS
    assert pauses[0] == 7 and 50 < pauses[1] <= 60
    site.set_responses(create_response(code=429, Retry_After="\u00b2"), create_response(CSV))
    assert read_rows(f"{site.url}/{{date}}.csv") == ROWS, "a text that is not a number is ignored"
    site.set_responses(create_response(code=429, Retry_After="3600"))
    with pytest.raises(ServiceError, match="asks to wait 3600 s"):
        read_rows(f"{site.url}/{{date}}.csv")
    assert len(site.requests) == 1


def test_partitions_on_the_web_are_requested_day_by_day(
    home: Path, site: Any, create_response: Any, pauses: list[float]
) -> None:
    source, days = FileSource(f"{site.url}/{{date}}.csv", "csv"), Days(dt.date(2013, 1, 1), dt.date(2013, 1, 3))
    site.set_responses(create_response(code=404), create_response(CSV), create_response(code=404))
    assert source.list_partitions(days) == [DAY]
    site.set_responses(create_response(code=404), create_response(code=500))
    with pytest.raises(ServiceError, match="500, 5 times"):
        source.list_partitions(days)


def test_a_server_that_does_not_answer_is_a_service_error(home: Path, free_port: Any, pauses: list[float]) -> None:
    with pytest.raises(ServiceError, match="does not answer"):
        read_rows(f"http://me:secret@127.0.0.1:{free_port()}/{{date}}.csv")
    with pytest.raises(SpecError, match="lists no files"):
        read_rows("http://127.0.0.1/{date}-*.csv")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Start a moto server; return its URL."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(home: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Create an empty bucket on the moto server."""
    import boto3
    import s3fs

    variables = {
        "ENDPOINT_URL": endpoint,
        "DEFAULT_REGION": "us-east-1",
        "ACCESS_KEY_ID": "x",
        "SECRET_ACCESS_KEY": "x",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    s3fs.S3FileSystem.clear_instance_cache()
    bucket = boto3.resource("s3").Bucket("sales")
    bucket.create()
    yield bucket
    bucket.objects.delete()
    bucket.delete()


def test_files_in_s3_are_listed_and_read(bucket: Any) -> None:
    for name, content in {
        "2013/01/02/a.csv.gz": gzip.compress(b"id\n1\n"),
        "2013/01/02/b.csv.gz": gzip.compress(b"id\n2\n"),
        "2013/01/04/a.csv.gz": gzip.compress(b"id\n3\n"),
    }.items():
        bucket.put_object(Key=f"in/{name}", Body=content)
    source = FileSource("s3://sales/in/{date:%Y/%m/%d}/*.csv.gz", "csv", columns=COLUMNS)
    assert source.list_partitions(Days(dt.date(2013, 1, 1), dt.date(2013, 1, 31))) == [DAY, dt.date(2013, 1, 4)]
    assert source.read(DAY).read_all().to_pylist() == ROWS
    assert source.describe().location == "s3://sales/in/{date:%Y/%m/%d}/*.csv.gz"
    bucket.put_object(Key="in/2013/01/05/a.csv.gz", Body=gzip.compress(b"id\n3\n"))
    assert source.list_partitions(Days(dt.date(2013, 1, 5), dt.date(2013, 1, 31))) == [dt.date(2013, 1, 5)]


def test_new_reads_all_objects_of_a_pattern(bucket: Any) -> None:
    """This test of the command `new` is here because this file has the bucket."""
    for name in ("a", "b"):
        bucket.put_object(Key=f"in/{name}.csv", Body=b"id\n1\n")
    sample = sampling.read_files("s3://sales/in/*.csv")
    assert (sample.url, sample.table.num_rows) == ("s3://sales/in/*.csv", 2)
    assert sampling.read_files("s3://sales/in/a.csv").url == "s3://sales/in/a.csv"


def test_a_large_object_is_read_in_pieces(bucket: Any) -> None:
    bucket.put_object(Key="2013-01-02.parquet", Body=create_parquet(6_000_000))
    reader = FileSource("s3://sales/{date}.parquet", "parquet", columns=COLUMNS).read(DAY)
    assert sum(batch.num_rows for batch in reader) == 6_000_000


def test_a_missing_or_empty_object_is_refused(bucket: Any) -> None:
    with pytest.raises(DataError, match=r"there is no s3://sales/2013-01-02.csv"):
        read_rows("s3://sales/{date}.csv")
    for url in ("s3://nosuch/{date}.csv", "s3://sales/{date}-*.csv"):
        with pytest.raises(DataError, match="there is no s3://"):
            read_rows(url)
    bucket.put_object(Key="2013-01-02.parquet", Body=b"")
    with pytest.raises(DataError, match=r"is empty \(0 bytes\)"):
        read_rows("s3://sales/{date}.parquet", "parquet")
    bucket.put_object(Key="2013-01-02.csv", Body=CSV.encode())
    assert read_rows("s3://sales/{date}.csv") == ROWS


def test_an_object_that_is_replaced_during_the_read_is_a_service_error(bucket: Any) -> None:
    content = "id\n" + f"1{' ' * 999}\n" * 80_000
    bucket.put_object(Key="2013-01-02.csv", Body=content.encode())
    reader = FileSource("s3://sales/{date}.csv", "csv", columns=COLUMNS).read(DAY)
    reader.read_next_batch()
    bucket.put_object(Key="2013-01-02.csv", Body=content.replace("1", "2").encode())
    with pytest.raises(ServiceError, match="cannot be read now"):
        reader.read_all()


def test_missing_credentials_and_a_missing_endpoint_are_errors(
    home: Path, monkeypatch: pytest.MonkeyPatch, free_port: Any
) -> None:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SpecError, match="no AWS credentials"):
        read_rows("s3://sales/{date}.csv")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    with pytest.raises(ServiceError, match="does not answer"):
        read_rows("s3://sales/{date}.csv")
