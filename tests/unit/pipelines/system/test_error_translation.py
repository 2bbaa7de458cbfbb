import datetime as dt
import errno
import sqlite3

import pytest

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError, StorageError
from pipelines.system.error_translation import translate_error


def raised_from(cause: Exception) -> Exception:
    """An error that only its cause explains."""
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
        raised_from(OSError(errno.ENOSPC, "No space left on device")),
    ],
)
def test_a_disk_that_refuses_can_be_tried_again(error: Exception) -> None:
    assert isinstance(translate_error(error), StorageError)


def test_what_is_ours_stays() -> None:
    ours = DataError("x", "y")
    assert translate_error(ours) is ours


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "/data/x"), DataError),
        (PermissionError(errno.EACCES, "no", "/data/x"), DataError),
        (ModuleNotFoundError("no", name="xgboost"), SpecError),
    ],
)
def test_files_and_packages(error: Exception, kind: type[LeewayError]) -> None:
    told = translate_error(error)
    assert type(told) is kind
    assert "/data/x" in str(told) or "xgboost" in str(told)


def test_clients_whose_server_is_down() -> None:
    import requests
    from botocore.exceptions import EndpointConnectionError

    assert isinstance(translate_error(requests.exceptions.ConnectionError("refused")), ServiceError)
    assert isinstance(translate_error(requests.exceptions.ReadTimeout("slow")), ServiceError)
    assert isinstance(translate_error(EndpointConnectionError(endpoint_url="http://x")), ServiceError)
    assert type(translate_error(requests.exceptions.InvalidURL("x"))) is LeewayError


@pytest.mark.parametrize(("day", "days"), [(dt.date.min, -1), (dt.date.max, 1)])
def test_a_day_about_which_no_window_lies_is_a_wrong_request(day: dt.date, days: int) -> None:
    with pytest.raises(OverflowError) as told:
        day + dt.timedelta(days)
    assert isinstance(translate_error(told.value), SpecError)
    assert type(translate_error(OverflowError("math range error"))) is LeewayError


def test_anything_else_is_a_bug_with_its_place() -> None:
    try:
        _ = {}["x"]
    except KeyError as error:
        told = translate_error(error)
    assert (type(told), told.exit_code) == (LeewayError, 1)
    assert "KeyError in test_error_translation.py:" in str(told)
    assert "LEEWAY_DEBUG" in told.hint
