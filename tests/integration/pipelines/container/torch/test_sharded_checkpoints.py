"""Test sharded checkpoints in one process: which one is restored, and which are passed over and removed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.torch_runs import REASON

torch = pytest.importorskip("torch", reason=REASON)

from pipelines.container.torch.processes import Processes, join  # noqa: E402
from pipelines.container.torch.sharded_checkpoints import ShapeError, ShardedCheckpoints  # noqa: E402


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Return the only process of a training."""
    with join() as processes:
        yield processes


def save(folder: Path, processes: Processes, *steps: int, identity: str = "a", **options: Any) -> ShardedCheckpoints:
    """Save a tensor that holds the step, for each of the steps."""
    checkpoints = ShardedCheckpoints(folder, {"identity": identity}, processes, **options)
    for step in steps:
        checkpoints.save(step, {"weight": torch.full((3, 2), float(step))}, {"epoch": step})
    return checkpoints


def restore(folder: Path, processes: Processes, identity: str = "a") -> tuple[int, float] | None:
    """Return the step of the restored checkpoint, and the number in its tensor."""
    tensors = {"weight": torch.zeros(3, 2)}
    description = ShardedCheckpoints(folder, {"identity": identity}, processes).restore(tensors)
    if description is None:
        assert not tensors["weight"].any()
        return None
    assert description.state == {"epoch": description.step}
    return description.step, float(tensors["weight"].mean())


def list_folders(folder: Path) -> list[int]:
    return sorted(int(path.name.partition("-")[0]) for path in folder.iterdir())


def test_the_newest_is_restored_and_the_last_two_stay(tmp_path: Path, processes: Processes) -> None:
    save(tmp_path, processes, 9, 10, 1_000_001)
    assert list_folders(tmp_path) == [10, 1_000_001]
    assert restore(tmp_path, processes) == (1_000_001, 1_000_001.0)
    assert not [path for path in tmp_path.rglob("*") if path.suffix not in ("", ".json", ".safetensors")]


@pytest.mark.parametrize("damage", ["shard is cut", "byte is changed", "shard is missing", "state is missing", "state"])
def test_a_damaged_one_is_passed_over_and_then_removed(
    damage: str, tmp_path: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, processes, 1, 2)
    (newest,) = tmp_path.glob("000002-*")
    (shard,) = newest.glob("shard-*")
    content = shard.read_bytes()
    if damage == "shard is cut":
        shard.write_bytes(content[:-1])
    elif damage == "byte is changed":
        shard.write_bytes(content[:-1] + b"\x01")
    elif damage == "shard is missing":
        shard.unlink()
    elif damage == "state is missing":
        (newest / "state.json").unlink()
    else:
        (newest / "state.json").write_text('{"step": 2}')
    checkpoints = ShardedCheckpoints(tmp_path, {"identity": "a"}, processes)
    description = checkpoints.restore({"weight": torch.zeros(3, 2)})
    assert description and description.step == 1
    assert f"checkpoint {newest.name} " in capsys.readouterr().err
    checkpoints.save(2, {"weight": torch.full((3, 2), 2.0)}, {"epoch": 2})
    assert list_folders(tmp_path) == [1, 2] and not newest.exists()
    assert restore(tmp_path, processes) == (2, 2.0)


def test_those_of_other_trainings_are_neither_restored_nor_removed(tmp_path: Path, processes: Processes) -> None:
    save(tmp_path, processes, 5, identity="b")
    assert restore(tmp_path, processes) is None
    save(tmp_path, processes, 1, 2, 3, identity="a")
    assert list_folders(tmp_path) == [2, 3, 5]
    assert restore(tmp_path, processes, identity="b") == (5, 5.0)


def test_other_files_stay_and_a_file_outside_is_never_named(tmp_path: Path, processes: Processes) -> None:
    folder = tmp_path / "checkpoints"
    save(folder, processes, 1)
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "secret").write_text("secret")
    (path,) = folder.glob("*/state.json")
    path.write_text(path.read_text().replace('"shard-', '"../../shard-'))
    assert restore(folder, processes) is None
    assert (folder / "notes.txt").exists()


def test_another_network_is_refused(tmp_path: Path, processes: Processes) -> None:
    checkpoints = save(tmp_path, processes, 1)
    with pytest.raises(
        ShapeError, match=r"weight has the shape \[3, 2\], not \[2, 2\]\. Use another checkpoint folder"
    ):
        checkpoints.restore({"weight": torch.zeros(2, 2)})
    with pytest.raises(ShapeError, match="bias has the shape none, not"):
        checkpoints.restore({"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})


def test_keep_limits_the_number(tmp_path: Path, processes: Processes) -> None:
    save(tmp_path, processes, 1, 2, 3, keep=1)
    assert list_folders(tmp_path) == [3]
