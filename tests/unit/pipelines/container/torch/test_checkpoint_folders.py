"""Test the folders of sharded checkpoints: what is complete, and why others are not. Needs no torch."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.container.torch.checkpoint_folders import (
    MARKER_FILE,
    Marker,
    choose_name,
    describe_file,
    list_names,
    list_other_names,
    verify,
    write_marker,
)

TRAINING, OTHER_TRAINING = "0123456789abcdef", "fedcba9876543210"
SHARDS = ("shard-00001.safetensors", "shard-00002.safetensors")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return the folder of a complete checkpoint of two shards."""
    folder = tmp_path / choose_name(7, TRAINING)
    folder.mkdir()
    for name in SHARDS:
        (folder / name).write_bytes(name.encode() * 100)
    complete(folder, {name: describe_file(folder / name) for name in SHARDS})
    return folder


def complete(folder: Path, files: dict[str, tuple[int, str]]) -> None:
    marker = Marker(7, "2026-01-01T00:00:00+00:00", 2, files, {"w": [2, 3]}, {"lr": 0.1}, {"epoch": 1})
    write_marker(folder, marker, folder.parent / "temporary")


def test_a_complete_checkpoint_is_returned_as_it_was_written(checkpoint: Path) -> None:
    marker = verify(checkpoint)
    assert (marker.step, marker.processes, marker.tensors, marker.values) == (7, 2, {"w": [2, 3]}, {"lr": 0.1})
    assert marker.state == {"epoch": 1} and set(marker.files) == set(SHARDS)
    assert not (checkpoint.parent / "temporary").exists()


def truncate_shard(folder: Path) -> None:
    (folder / SHARDS[1]).write_bytes((folder / SHARDS[1]).read_bytes()[:-1])


def change_shard(folder: Path) -> None:
    (folder / SHARDS[0]).write_bytes(b"X" + (folder / SHARDS[0]).read_bytes()[1:])


def truncate_marker(folder: Path) -> None:
    (folder / MARKER_FILE).write_bytes((folder / MARKER_FILE).read_bytes()[:-20])


def change_marker(folder: Path) -> None:
    (folder / MARKER_FILE).write_bytes((folder / MARKER_FILE).read_bytes().replace(b'"epoch": 1', b'"epoch": 2'))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / SHARDS[1]).unlink(), f"is incomplete: it lacks {SHARDS[1]}"),
        (truncate_shard, f"is incomplete: {SHARDS[1]} is truncated or corrupt"),
        (change_shard, f"is incomplete: {SHARDS[0]} is truncated or corrupt"),
        (lambda folder: (folder / MARKER_FILE).unlink(), f"is incomplete: it has no {MARKER_FILE}"),
        (lambda folder: (folder / MARKER_FILE).write_bytes(b""), f"is damaged: {MARKER_FILE} is truncated or corrupt"),
        (truncate_marker, f"is damaged: {MARKER_FILE} is truncated or corrupt"),
        (change_marker, f"is damaged: {MARKER_FILE} is truncated or corrupt"),
        (lambda folder: complete(folder, {"../stolen": (1, "0")}), r"is incomplete: it lacks \.\./stolen"),
    ],
)
def test_what_is_damaged_is_named(checkpoint: Path, damage: Callable[[Path], None], reason: str) -> None:
    (checkpoint.parent / "stolen").write_bytes(b"1")
    damage(checkpoint)
    with pytest.raises(ValueError, match=reason):
        verify(checkpoint)


def test_names_are_newest_first_and_of_one_training(tmp_path: Path) -> None:
    names = [choose_name(step, TRAINING) for step in (9, 10, 100)]
    others = [choose_name(5, OTHER_TRAINING), "000123", "notes", f"1-{TRAINING}-00000000"]
    for name in (*names, *others):
        (tmp_path / name).mkdir()
    assert list_names(tmp_path, TRAINING) == names[::-1]
    assert list_other_names(tmp_path, TRAINING) == others[:1]
    assert choose_name(9, TRAINING) != choose_name(9, TRAINING), "a name is never used twice"
