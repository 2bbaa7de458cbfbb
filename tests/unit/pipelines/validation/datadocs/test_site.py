"""Test the indexes of the data docs."""

from __future__ import annotations

from pathlib import Path

from pipelines.validation.datadocs import site


def test_a_dataset_without_a_page_does_not_prevent_the_index_of_all_datasets(home: Path) -> None:
    site.update_indexes("flights")  # as after a backfill in which every partition failed before its validation
    assert (home / "docs" / "index.html").exists()
    assert not (home / "docs" / "flights").exists()
