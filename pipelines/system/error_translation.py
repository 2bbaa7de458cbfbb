"""Translate errors of libraries into the project's own: they say whether a retry can help, and what to do.

`KNOWN_ERRORS` lists the classes of errors that are translated. Errors of any class are translated if they are caused by
a full or failing disk, by DuckDB's memory limit or by a damaged file of the lake. Any other error is a bug, with exit
code 1.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.errors import (
    ConflictError,
    DataError,
    InvalidError,
    LeewayError,
    RetryableError,
    ServiceError,
    SpecError,
    StorageError,
)
from pipelines.system.lake_errors import LAKE_DATA_FILE, RESTORE_DAY, translate_lake_error

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""Codes of a full disk; `NO_SPACE_TEXTS` are the texts of libraries that hide the code."""
NO_SPACE_TEXTS = (
    *("No space left on device", "database or disk is full", "Disk quota exceeded"),
    "max_temp_directory_size",  # DuckDB 2.0: 90 % of the space that is free where it spills
)
DISK_ERRORS = (errno.EIO, errno.EROFS)
"""Codes of a disk that fails or is read-only; `DISK_ERROR_TEXTS` are the texts of libraries that hide the code."""
DISK_ERROR_TEXTS = ("disk I/O error", "Read-only file system", "readonly database")
NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""Codes of a machine without free file descriptors, memory or processes."""
MEMORY_TEXT = "Out of Memory Error:"
"""Beginning of the text of DuckDB's error; pyarrow raises an error with this text when it reads DuckDB's rows."""
AWS_ERROR = re.compile(r"AWS Error ([A-Z_]+) during")
"""Code of an error of S3 in the text of pyarrow's error. The class of pyarrow's error does not show it."""
PERMANENT_AWS_ERRORS = re.compile(
    r"ACCESS_DENIED|NO_SUCH_(BUCKET|KEY)|RESOURCE_NOT_FOUND|INVALID_\w+|MISSING_\w+|\w*SIGNATURE\w*|UNRECOGNIZED_CLIENT|"
    r"NOT_INITIALIZED|OPT_IN_REQUIRED|VALIDATION|MALFORMED_\w+"
)
"""Codes of errors of S3 after which a retry cannot help."""
CPP_PLACE = re.compile(r"\[[\d:]+\] \S+:\d+: ")
"""Beginning of the text of an error of xgboost 3: the time, and the file and line of the C++ source."""
LOCKED_TEXTS = ("database is locked", "database table is locked", "database schema is locked")
"""SQLite's texts for a database that another process holds."""
CREATED_BY_OTHER_TEXT = "already exists"
"""SQLite's text for a table that another process created a moment ago."""
EXTRAS = {"pyspark": "spark", "sagemaker": "sagemaker"}
"""Maps a package to the extra of `pip install` that installs it; the extra `pipelines` installs all other packages."""
CREATE_AGAIN = "Restore it, or remove it and run the step that writes it."
"""What to do about a damaged file if nothing else is known about it."""

Translate = Callable[[Any], LeewayError | None]
"""Returns the translation of an error; None if the function does not know the error."""


def translate_error(error: BaseException) -> LeewayError:
    """Return the LeewayError for an error of any library.

    Returns:
        `error` itself if it is a LeewayError. If the error is not known, a plain LeewayError: a bug, with exit code 1.
    """
    if isinstance(error, LeewayError):
        return error
    return translate_known_error(error) or LeewayError(
        f"{type(error).__name__} in {_find_raising_line(error)}: {describe_reason(error)}.",
        "This is a bug of Leeway; the traceback is above.",
    )


def translate_known_error(error: BaseException) -> LeewayError | None:
    """Return the LeewayError for a known error; None for any other, which is a bug."""
    if is_disk_full(error):
        return StorageError(
            "there is no space left on the disk.", "Free some space and run it again; no file is incomplete."
        )
    if cause := _find_cause(error, DISK_ERRORS, DISK_ERROR_TEXTS):
        reason = describe_reason(cause)
        return StorageError(
            f"a file cannot be read or written: {reason}.", "Check whether the disk is read-only or failing."
        )
    if isinstance(error, OSError) and (match := AWS_ERROR.search(str(error))):
        return _translate_aws_error(match[1], describe_reason(error))
    if cause := _find_cause(error, codes=(), texts=(MEMORY_TEXT,)):
        reason = describe_reason(cause).partition(MEMORY_TEXT)[2].strip()
        return InvalidError(
            f"DuckDB needs more memory than it may use: {reason}.", "Set LEEWAY_MEMORY_MIB higher (MiB; default: 768)."
        )
    translation = next(filter(None, _translate_by_table(error)), None)
    if isinstance(translation, RetryableError):
        return translation
    is_content_error = isinstance(translation, DataError)
    return translate_lake_error(error, describe_reason(error), is_content_error=is_content_error) or translation


def is_disk_full(error: BaseException) -> bool:
    """Return whether a full disk caused the error, whichever library raised it."""
    return _find_cause(error, NO_SPACE, NO_SPACE_TEXTS) is not None


def describe_reason(error: BaseException) -> str:
    """Return the text of an error on one line, without C++ source lines, SQL, links and the final dot.

    An error of the operating system is described by its code only, and one of pydantic by its first three problems.
    """
    text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    if isinstance(error, ValidationError):
        text = "; ".join(problem["msg"] for problem in error.errors()[:3])
    for addition in ("\n[SQL:", "\n(Background on", "\n\nPossible solutions:"):
        text = text.split(addition)[0]
    if place := CPP_PLACE.match(text):  # the lines after the first are a part of the file, and a stack of C++
        text = text[place.end() :].partition("\n")[0]
    return " ".join(text.split()).rstrip(".") or type(error).__name__


def _find_cause(error: BaseException | None, codes: Sequence[int], texts: Sequence[str]) -> BaseException | None:
    """Return the error, or else the first of its causes, that has one of the codes or texts; None if none has."""
    while error is not None:
        has_code = isinstance(error, OSError) and error.errno in codes
        if has_code or any(text in str(error) for text in texts):
            return error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def _translate_by_table(error: BaseException) -> Iterator[LeewayError | None]:
    """Yield the result of the function in each row of `KNOWN_ERRORS` that lists a class of the error.

    A library that is not loaded cannot have raised the error, so it is not imported.
    """
    for module, names, translate in KNOWN_ERRORS:
        loaded_module = sys.modules.get(module)
        if loaded_module and isinstance(
            error, tuple(getattr(loaded_module, name) for name in names if hasattr(loaded_module, name))
        ):
            yield translate(error)


def _translate_service_error(error: BaseException) -> LeewayError:
    return ServiceError(
        f"a service does not answer: {describe_reason(error)}.",
        "Check whether it is up. `make up` starts the embedded ones.",
    )


def _translate_aws_error(code: str, reason: str) -> LeewayError:
    if PERMANENT_AWS_ERRORS.fullmatch(code):
        return DataError(f"S3 refuses a request: {reason}.", "Check the bucket, the address and the credentials.")
    return ServiceError(f"S3 does not answer: {reason}.", "Check its address, and whether it is up.")


def _translate_aws_setup_error(error: BaseException) -> LeewayError:
    return SpecError(
        f"AWS is not set up here: {describe_reason(error)}.",
        "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_DEFAULT_REGION, or an existing AWS_PROFILE.",
    )


def _translate_address_error(error: BaseException) -> LeewayError:
    return SpecError(f"an address is not valid: {describe_reason(error)}.", "Correct the setting that has it.")


def _translate_module_error(error: ModuleNotFoundError) -> LeewayError:
    package = str(error.name).partition(".")[0]
    extra = EXTRAS.get(package, "pipelines")
    hint = f'Run `pip install "leeway[{extra}]"`, in a checkout `make setup`; LEEWAY_PYTHON names the steps\' Python.'
    return SpecError(f"the package {package} is not installed here.", hint)


def _translate_os_error(error: OSError) -> LeewayError | None:
    if error.errno in NO_RESOURCES:
        return StorageError(f"the machine has no free resources: {describe_reason(error)}.", "Run it again later.")
    if error.filename is not None:
        return DataError(f"{error.filename}: {describe_reason(error)}.")
    # pyarrow's error about damaged content has neither errno nor filename; one about a missing file has no filename.
    has_only_text = error.errno is None or isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError))
    return DataError(f"a file cannot be read: {error}.", CREATE_AGAIN) if has_only_text else None


def _translate_memory_error(_: MemoryError) -> LeewayError:
    return StorageError("the machine has no free memory.", "Stop other programs, or run it again later.")


def _translate_content_error(error: BaseException) -> LeewayError:
    reason = describe_reason(error)
    return DataError(
        f"a file cannot be read: {reason}.", RESTORE_DAY if LAKE_DATA_FILE.search(reason) else CREATE_AGAIN
    )


def _translate_duckdb_error(error: BaseException) -> LeewayError | None:
    """Translate the base class of DuckDB's errors: DuckDB 2.0 raises it for a damaged header of a Parquet file."""
    return _translate_content_error(error) if type(error).__name__ == "Error" else None


def _translate_sqlite_error(error: BaseException) -> LeewayError | None:
    if any(text in str(error) for text in LOCKED_TEXTS):
        return ConflictError(f"{error}: another process holds it.", "Run it again.")
    if CREATED_BY_OTHER_TEXT in str(error):
        return ConflictError(f"{describe_reason(error)}: another process creates it now.", "Run it again.")
    if type(error).__name__ in ("DatabaseError", "OperationalError"):  # the other classes are bugs
        return DataError(f"a SQLite database cannot be read: {describe_reason(error)}.", "Restore it from a backup.")
    return None


def _translate_sqlalchemy_error(error: Any) -> LeewayError | None:
    """Translate the error of a database by the driver's error inside it."""
    if type(error.orig).__module__.startswith("sqlite3"):
        return _translate_sqlite_error(error.orig)
    if type(error).__name__ in ("OperationalError", "InterfaceError"):
        return ServiceError(f"a database does not answer: {describe_reason(error)}.", "Check its address.")
    return None


def _translate_date_error(error: OverflowError) -> LeewayError | None:
    """Translate the overflow of a date. Python's dates are limited to the years 1 to 9999."""
    if not any(text in str(error) for text in ("date value", "must have magnitude", "int too large", "C int")):
        return None
    return SpecError("the window would need a day before the year 1 or after 9999.", "Choose another day.")


KNOWN_ERRORS: tuple[tuple[str, tuple[str, ...], Translate], ...] = (
    ("botocore.exceptions", ("ConnectionError", "HTTPClientError"), _translate_service_error),
    ("botocore.exceptions", ("NoCredentialsError", "PartialCredentialsError"), _translate_aws_setup_error),
    ("botocore.exceptions", ("NoRegionError", "ProfileNotFound", "InvalidEndpointDiscoveryConfigurationError"),
     _translate_aws_setup_error),
    ("requests.exceptions", ("ConnectionError", "Timeout"), _translate_service_error),
    ("requests.exceptions", ("InvalidURL", "MissingSchema", "InvalidSchema"), _translate_address_error),
    ("http.client", ("InvalidURL",), _translate_address_error),
    ("builtins", ("ModuleNotFoundError",), _translate_module_error),
    ("builtins", ("ConnectionError", "TimeoutError"), _translate_service_error),
    ("socket", ("gaierror",), _translate_service_error),
    ("builtins", ("MemoryError",), _translate_memory_error),
    ("builtins", ("OSError",), _translate_os_error),
    ("builtins", ("UnicodeDecodeError", "EOFError"), _translate_content_error),
    ("json", ("JSONDecodeError",), _translate_content_error),
    ("yaml", ("YAMLError",), _translate_content_error),
    ("zipfile", ("BadZipFile",), _translate_content_error),
    ("tarfile", ("TarError",), _translate_content_error),
    ("zlib", ("error",), _translate_content_error),
    ("pyarrow.lib", ("ArrowInvalid",), _translate_content_error),
    ("duckdb", ("IOException", "InvalidInputException", "SerializationException"), _translate_content_error),
    ("duckdb", ("Error",), _translate_duckdb_error),
    ("xgboost.core", ("XGBoostError",), _translate_content_error),
    ("sqlite3", ("DatabaseError",), _translate_sqlite_error),
    ("sqlalchemy.exc", ("DBAPIError",), _translate_sqlalchemy_error),
    ("sqlalchemy.exc", ("ArgumentError", "NoSuchModuleError"), _translate_address_error),
    ("builtins", ("OverflowError",), _translate_date_error),
)  # fmt: skip
"""Module, classes of errors, and the function that translates them. The first translation that is not None is used."""


def _find_raising_line(error: BaseException) -> str:
    """Return FILE:LINE of the code that raised the error; "?" if it has no traceback."""
    traceback = error.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    return f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}" if traceback else "?"
