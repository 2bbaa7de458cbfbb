"""Test that lost files of staged days are restored from the source, and what is said where the source cannot help."""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.dataset import load_dataset
from pipelines.errors import SpecError, StorageError
from pipelines.ingestion import changes, lost_days
from pipelines.lake.check import Finding
from pipelines.steps import check_lake, sync

FINDING = Finding(
    "rows", "missing", "file:///lake/a.parquet", "does not exist", "weather_raw", "2013-01-01", digest="x"
)


def test_days_of_a_source_that_is_read_incrementally_are_restored(
    home: Path, orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync.run(sync.SyncSpec(dataset="orders", folder=orders.folder))
    from pipelines.datasets.orders import source  # type: ignore[import-not-found]

    open_source, read_changes, reads = source.open_source, changes.read_changes, []
    monkeypatch.setattr(source, "open_source", lambda _: open_source(orders.folder))
    monkeypatch.setattr(
        changes, "read_changes", lambda *args, **options: reads.append(args) or read_changes(*args, **options)
    )
    files = sorted((home / "lake/leeway/orders_raw/data").rglob("*.parquet"))
    contents = [path.read_bytes() for path in files]
    for path in files[:2]:
        path.unlink()
    assert check_lake.run(check_lake.CheckLakeSpec(repair=True)).restored == 2
    assert [path.read_bytes() for path in files] == contents
    assert len(reads) == 1


@pytest.fixture
def raise_in_source(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Return the function that lets the source of the weather raise an error when it is read."""
    from pipelines.datasets.weather import source

    def set_error(error: Exception) -> None:
        class BrokenSource:
            def read(self, _: Any) -> Any:
                raise error

        monkeypatch.setattr(source, "open_source", lambda _: BrokenSource())

    return set_error


def test_an_error_of_the_source_is_logged_as_it_is(
    raise_in_source: Callable[[Exception], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raise_in_source(SpecError("WEATHER_TOKEN is not set."))
    with (
        lost_days.IngestionRowSource([load_dataset("weather")]) as row_source,
        caplog.at_level(logging.WARNING, "leeway"),
    ):
        assert row_source.write_files(FINDING, tmp_path) == []
    assert caplog.messages == [f"{FINDING.describe()}: not restored from the source: WEATHER_TOKEN is not set."]


def test_a_full_disk_is_no_error_of_the_source(raise_in_source: Callable[[Exception], None], tmp_path: Path) -> None:
    raise_in_source(OSError(errno.ENOSPC, "No space left on device"))
    with (
        lost_days.IngestionRowSource([load_dataset("weather")]) as row_source,
        pytest.raises(StorageError, match="no space left"),
    ):
        row_source.write_files(FINDING, tmp_path)
