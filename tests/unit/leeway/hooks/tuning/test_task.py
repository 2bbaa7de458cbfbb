"""Test which channels are recognized as the holdout of the gate. test_tuning.py has a refused task."""

from pathlib import Path

import pytest
from leeway.hooks.tuning.task import is_holdout


@pytest.fixture
def features(tmp_path: Path) -> Path:
    """Return a folder as `preprocess` writes it, and a link to its holdout."""
    for name in ("train", "validation", "holdout"):
        (tmp_path / "features" / name).mkdir(parents=True)
    (tmp_path / "features/link").symlink_to(tmp_path / "features/holdout")
    return tmp_path / "features"


@pytest.mark.parametrize("channel", ["holdout", "holdout/", "train/../holdout", "link", ""])
def test_folder_of_the_holdout_is_recognized(features: Path, channel: str) -> None:
    assert is_holdout(f"{features}/{channel}")


@pytest.mark.parametrize("channel", ["train", "validation", "validation/", "holdout-of-mine"])
def test_other_folders_are_accepted(features: Path, channel: str) -> None:
    """This is the negative control."""
    assert not is_holdout(f"{features}/{channel}")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket/features/holdout", True),
        ("s3://bucket/features/holdout/", True),
        ("s3://holdout/features/train/", False),
        ("s3://bucket/holdout/train/", False),
        ("s3://bucket/features/holdout-2/", False),
    ],
)
def test_prefix_of_the_holdout_is_recognized_by_its_last_part(uri: str, expected: bool) -> None:
    assert is_holdout(uri) is expected
