"""Test how errors of libraries become errors of Leeway."""

import datetime as dt
import errno
import sqlite3

import pytest

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError, StorageError
from pipelines.system.error_translation import translate_error


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
    ],
)
def test_an_error_of_the_disk_can_be_retried(error: Exception) -> None:
    assert isinstance(translate_error(error), StorageError)


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
    import requests
    from botocore.exceptions import EndpointConnectionError

    assert isinstance(translate_error(requests.exceptions.ConnectionError("refused")), ServiceError)
    assert isinstance(translate_error(requests.exceptions.ReadTimeout("slow")), ServiceError)
    assert isinstance(translate_error(EndpointConnectionError(endpoint_url="http://x")), ServiceError)
    assert type(translate_error(requests.exceptions.InvalidURL("x"))) is LeewayError


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
    assert "LEEWAY_DEBUG" in translation.hint
