"""Translate errors of libraries into the project's own: they say whether a retry can help, and what to do."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError, StorageError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""Codes of a full disk; `NO_SPACE_TEXTS` are the texts of libraries that hide the code."""
NO_SPACE_TEXTS = ("No space left on device", "database or disk is full", "Disk quota exceeded")
DISK_ERRORS = (errno.EIO, errno.EROFS)
"""Codes of a disk that fails or is read-only; `DISK_ERROR_TEXTS` are the texts of libraries that hide the code."""
DISK_ERROR_TEXTS = ("disk I/O error", "Read-only file system", "readonly database")


def translate_error(error: BaseException) -> LeewayError:
    """Return the LeewayError for an error of any library.

    Returns:
        `error` itself where it is a LeewayError; a plain LeewayError (a bug, exit code 1) where it is not recognised.
    """
    if isinstance(error, LeewayError):
        return error
    if is_disk_full(error):
        return StorageError(
            "there is no space left on the disk.", "Free some space and run it again; no file is incomplete."
        )
    for translate in (_translate_client_error, _translate_disk_error, _translate_file_error, _translate_date_error):
        if translation := translate(error):
            return translation
    return LeewayError(
        f"{type(error).__name__} in {_find_raising_line(error)}: {error}.",
        "This is a bug of Leeway; LEEWAY_DEBUG=1 shows where.",
    )


def is_disk_full(error: BaseException) -> bool:
    """Return whether a full disk caused the error, whichever library raised it."""
    return _is_caused_by(error, NO_SPACE, NO_SPACE_TEXTS)


def _is_caused_by(error: BaseException | None, codes: Sequence[int], texts: Sequence[str]) -> bool:
    """Return whether the error, or one that it was raised from, has one of the codes or texts."""
    while error is not None:
        has_code = isinstance(error, OSError) and error.errno in codes
        if has_code or any(text in str(error) for text in texts):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _translate_disk_error(error: BaseException) -> LeewayError | None:
    if not _is_caused_by(error, DISK_ERRORS, DISK_ERROR_TEXTS):
        return None
    return StorageError(f"a file cannot be read or written: {error}.", "Is the disk mounted read-only, or failing?")


def _translate_client_error(error: BaseException) -> LeewayError | None:
    """Translate the error of a client whose server does not answer.

    A library that is not loaded cannot have raised the error, so it is not imported.
    """
    error_names = {
        "botocore.exceptions": ("ConnectionError", "HTTPClientError"),
        "requests.exceptions": ("ConnectionError", "Timeout"),
    }
    for module, names in error_names.items():
        loaded = sys.modules.get(module)
        if loaded and isinstance(error, tuple(getattr(loaded, name) for name in names)):
            return ServiceError(f"a service does not answer: {error}.", "Is it up? `make up` starts the embedded ones.")
    return None


def _translate_file_error(error: BaseException) -> LeewayError | None:
    if isinstance(error, ModuleNotFoundError):
        hint = "Run `make setup`, then .venv/bin/python; for Airflow, set LEEWAY_PYTHON to an interpreter that has it."
        return SpecError(f"the package {error.name} is not installed here.", hint)
    classes = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError, IsADirectoryError)
    if isinstance(error, classes):
        reason = os.strerror(error.errno) if error.errno else "cannot be opened"
        return DataError(f"{error.filename or error}: {reason}.")
    return None


def _translate_date_error(error: BaseException) -> LeewayError | None:
    """Translate the overflow of a date. Python's dates are limited to the years 1 to 9999."""
    if not (isinstance(error, OverflowError) and "date value" in str(error)):
        return None
    return SpecError("the window would need a day before the year 1 or after 9999.", "Choose another day.")


def _find_raising_line(error: BaseException) -> str:
    """Return FILE:LINE of the code that raised the error; "?" where it has no traceback."""
    traceback = error.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    return f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}" if traceback else "?"
