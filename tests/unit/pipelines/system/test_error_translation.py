"""Test how errors of libraries become errors of Leeway."""

import datetime as dt
import errno
import gzip
import json
import math
import socket
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import boto3
import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
import xgboost
import yaml
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError as DatabaseOperationalError

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError, StorageError
from pipelines.system.error_translation import translate_error
from pipelines.system.s3 import open_folder


def raise_from(cause: Exception) -> Exception:
    """Return an error that only its cause explains."""
    try:
        try:
            raise cause
        except Exception as error:
            raise RuntimeError("it did not work") from error
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/x"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError(errno.EROFS, "Read-only file system"),
        OSError(errno.EIO, "Input/output error"),
        sqlite3.OperationalError("database or disk is full"),
        sqlite3.OperationalError("disk I/O error"),
        RuntimeError("[Errno 28] Error writing bytes. Detail: [errno 28] No space left on device"),
        raise_from(OSError(errno.ENOSPC, "No space left on device")),
        MemoryError(),
        pa.lib.ArrowMemoryError("malloc of size 64 failed"),
    ],
)
def test_an_error_of_the_disk_can_be_retried(error: Exception) -> None:
    assert isinstance(translate_error(error), StorageError)


def test_the_cause_gives_the_reason() -> None:
    translation = translate_error(raise_from(RuntimeError("Out of Memory Error: failed to pin a block.")))
    assert translation.message == "DuckDB needs more memory than it may use: failed to pin a block."
    translation = translate_error(raise_from(OSError(errno.EIO, "Input/output error")))
    assert translation.message == "a file cannot be read or written: Input/output error."


def test_an_error_of_leeway_stays_unchanged() -> None:
    error = DataError("x", "y")
    assert translate_error(error) is error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "/data/x"), DataError),
        (PermissionError(errno.EACCES, "no", "/data/x"), DataError),
        (ModuleNotFoundError("no", name="xgboost"), SpecError),
    ],
)
def test_missing_files_and_packages_are_invalid_requests(error: Exception, kind: type[LeewayError]) -> None:
    translation = translate_error(error)
    assert type(translation) is kind
    assert "/data/x" in str(translation) or "xgboost" in str(translation)


def test_connection_errors_of_clients_are_service_errors() -> None:
    from botocore.exceptions import EndpointConnectionError

    assert isinstance(translate_error(requests.exceptions.ConnectionError("refused")), ServiceError)
    assert isinstance(translate_error(requests.exceptions.ReadTimeout("slow")), ServiceError)
    assert isinstance(translate_error(EndpointConnectionError(endpoint_url="http://x")), ServiceError)


@pytest.mark.parametrize(("day", "days"), [(dt.date.min, -1), (dt.date.max, 1)])
def test_a_day_without_a_possible_window_is_an_invalid_request(day: dt.date, days: int) -> None:
    with pytest.raises(OverflowError) as error:
        day + dt.timedelta(days)
    assert isinstance(translate_error(error.value), SpecError)
    assert type(translate_error(OverflowError("math range error"))) is LeewayError


def test_any_other_error_is_a_bug_with_its_place_in_the_code() -> None:
    try:
        _ = {}["x"]
    except KeyError as error:
        translation = translate_error(error)
    assert (type(translation), translation.exit_code) == (LeewayError, 1)
    assert "KeyError in test_error_translation.py:" in str(translation)
    assert "bug of Leeway" in translation.hint


def raise_by(call: Callable[[], object]) -> Exception:
    """Return the error that the call of a real library raises."""
    with pytest.raises(Exception) as error:  # noqa: PT011
        call()
    return error.value


@pytest.fixture
def garbage(tmp_path: Path) -> Path:
    (tmp_path / "garbage").write_bytes(b"\xff\xfe no file of this kind" * 50)
    return tmp_path / "garbage"


READERS: dict[str, Callable[[Path], object]] = {
    "pyarrow": pq.read_table,
    "pandas": pd.read_parquet,
    "duckdb": lambda path: duckdb.sql(f"FROM read_parquet('{path}')").fetchall(),
    "duckdb without a file": lambda path: duckdb.sql(f"FROM read_parquet('{path}.gone')").fetchall(),
    "sqlite": lambda path: sqlite3.connect(path).execute("SELECT 1 FROM x"),
    "sqlalchemy": lambda path: create_engine(f"sqlite:///{path}").connect().exec_driver_sql("SELECT 1 FROM x"),
    "a folder as a database": lambda path: create_engine(f"sqlite:///{path.parent}").connect(),
    "text": lambda path: path.read_text(encoding="utf-8"),
    "JSON": lambda path: json.loads(path.read_text(encoding="latin-1")),
    "YAML": lambda path: yaml.safe_load(f"{{{path}: ["),
    "zip": zipfile.ZipFile,
    "tar": tarfile.open,
    "gzip": lambda path: gzip.decompress(path.read_bytes()),
    "zlib": lambda path: zlib.decompress(path.read_bytes()),
    "a folder": lambda path: path.parent.read_bytes(),
    "a file as a folder": lambda path: (path / "x").read_bytes(),
    "no file": lambda path: (path.parent / "gone").read_bytes(),
    "xgboost": lambda path: xgboost.Booster(model_file=path),
    "a name that is too long": lambda path: (path.parent / ("x" * 300)).read_bytes(),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_cannot_be_read_is_wrong_data(reader: str, garbage: Path) -> None:
    translation = translate_error(raise_by(lambda: READERS[reader](garbage)))
    assert isinstance(translation, DataError), translation
    assert not any(word in str(translation) for word in ("Stack trace", "[SQL", "sqlalche.me", "bug of Leeway", "\n"))


def test_damaged_content_of_a_parquet_file_is_wrong_data(tmp_path: Path) -> None:
    """The footer is good, so pyarrow raises a plain OSError."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": list(range(100_000))}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[1_000:60_000] = bytes(59_000)
    path.write_bytes(content)
    error = raise_by(lambda: pq.read_table(path))
    assert type(error) is OSError
    assert isinstance(translate_error(error), DataError)


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("database is locked"),
        sqlite3.OperationalError("table iceberg_tables already exists"),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        TimeoutError("slow"),
        socket.gaierror(-2, "Name or service not known"),
        OSError(errno.EMFILE, "Too many open files", "/x"),
        DatabaseOperationalError("SELECT 1", {}, sqlite3.OperationalError("database is locked")),
        DatabaseOperationalError("SELECT 1", {}, RuntimeError("connection refused")),  # of another driver
    ],
)
def test_what_may_work_later_can_be_retried(error: Exception) -> None:
    assert translate_error(error).exit_code == 75


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("NETWORK_CONNECTION", 75), ("SLOW_DOWN", 75), ("UNKNOWN", 75), ("ACCESS_DENIED", 2), ("NO_SUCH_BUCKET", 2)],
)
def test_the_code_of_s3_says_whether_a_retry_can_help(code: str, exit_code: int) -> None:
    text = f"When reading information for key 'a' in bucket 'b': AWS Error {code} during HeadObject operation: no"
    assert translate_error(OSError(text)).exit_code == exit_code


@pytest.mark.parametrize(
    "call",
    [
        lambda: requests.get("notaurl", timeout=1),
        lambda: requests.get("ftp://host/x", timeout=1),
        lambda: requests.get("http://host:8080extra", timeout=1),
        lambda: create_engine("notaurl"),
        lambda: create_engine("nonsense://host/x"),
        lambda: dt.date(2013, 1, 1) - dt.timedelta(99_999_999_999),
        lambda: dt.date(2013, 1, 1) - dt.timedelta(999_999),
        lambda: dt.timedelta(days=10**40),
    ],
)
def test_a_malformed_address_or_an_impossible_day_is_an_invalid_request(call: Callable[[], object]) -> None:
    assert isinstance(translate_error(raise_by(call)), SpecError)


@pytest.fixture
def without_aws_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of an earlier test
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: boto3.Session().client("s3", "us-east-1").list_buckets(), "Unable to locate credentials"),
        (lambda: boto3.Session().client("sagemaker"), "You must specify a region"),
        (lambda: boto3.Session(profile_name="nobody"), "The config profile (nobody) could not be found"),
    ],
)
@pytest.mark.usefixtures("without_aws_settings")
def test_a_missing_setting_of_aws_is_named(call: Callable[[], object], reason: str) -> None:
    error = translate_error(raise_by(call))
    assert isinstance(error, SpecError)
    assert error.message == f"AWS is not set up here: {reason}."
    assert "AWS_DEFAULT_REGION" in error.hint


@pytest.mark.usefixtures("without_aws_settings")
def test_a_retry_does_not_help_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(SpecError, match="Unable to locate credentials"),
        open_folder("s3://bucket/model.tar.gz", "model"),
    ):
        pass
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(ServiceError, match="does not answer"), open_folder("s3://bucket/model.tar.gz", "model"):
        pass


@pytest.mark.parametrize(
    "call",
    [
        lambda: {}["x"],
        lambda: int("x"),
        lambda: pa.array([1]).cast(pa.list_(pa.int8())),
        lambda: duckdb.sql("SELEC 1"),
        lambda: duckdb.sql("FROM no_such_table"),
        lambda: sqlite3.connect(":memory:").execute("SELECT ?", ()),
        lambda: math.exp(1_000),
        lambda: next(iter([])),
    ],
)
def test_errors_of_the_program_are_bugs(call: Callable[[], object]) -> None:
    """This is the negative control: such an error must not look like a problem of the user's data."""
    translation = translate_error(raise_by(call))
    assert (type(translation), translation.exit_code) == (LeewayError, 1)
