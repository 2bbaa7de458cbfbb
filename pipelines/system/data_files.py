"""Read files that a step or a person wrote. An error names the file that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DataError, InvalidError, LeewayError
from pipelines.system.error_translation import describe_reason, translate_known_error

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def explain_damage(file: object, remedy: str) -> Iterator[None]:
    """Raise an error that names `file` if the block cannot read it.

    Args:
        file: path or description of the file that the block reads.
        remedy: a sentence about how to create the file again, for the user.

    A LeewayError of the block, and an error that is not known, are raised unchanged.

    Raises:
        DataError: the file does not exist, or its content is damaged. A retry cannot help.
        RetryableError: the disk or a service failed; the error may not name `file`. A retry can help.
    """
    try:
        yield
    except LeewayError:
        raise
    except Exception as error:
        translation = translate_known_error(error)
        if translation is None:
            raise
        if not isinstance(translation, InvalidError):
            raise translation from None
        raise DataError(f"{file} cannot be read: {describe_reason(error)}.", remedy) from None


def read_parquet(path: Path, step: str, columns: Iterable[str] = ()) -> pd.DataFrame:
    """Read a Parquet file that a step wrote.

    Args:
        path: the file.
        step: the step that writes it, for the error message.
        columns: columns that the file must have.

    Raises:
        DataError: there is no such file, it is damaged, or it lacks a column. A retry cannot help.
    """
    import pandas as pd

    frame: pd.DataFrame = _read(path, step, pd.read_parquet)
    if missing_names := [name for name in columns if name not in frame]:
        raise DataError(
            f"{path} lacks the column(s) {', '.join(missing_names[:10])}.", f"Run `{step}` again; it writes this file."
        )
    return frame


def read_parquet_metadata(path: Path, step: str) -> dict[bytes, bytes]:
    """Read the metadata of a Parquet file that a step wrote; empty if it has none.

    Raises:
        DataError: there is no such file, or it is damaged. A retry cannot help.
    """
    import pyarrow.parquet as pq

    return dict(_read(path, step, pq.read_schema).metadata or {})


def _read(path: Path, step: str, read: Callable[[Path], Any]) -> Any:
    if not path.exists():
        raise DataError(f"{path} does not exist.", f"The step `{step}` writes it.")
    if not path.is_file():  # pandas would read the files of a folder
        raise DataError(f"{path} is not a file.", f"Remove it, and run `{step}` again; it writes this file.")
    with explain_damage(path, f"Run `{step}` again; it writes this file."):
        return read(path)
