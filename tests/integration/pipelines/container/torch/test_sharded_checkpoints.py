"""Test sharded checkpoints in one process: what is kept and removed, and a disk that is full."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.container.hosts import HostsError
from pipelines.container.signals import Stopped
from pipelines.errors import DataError

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'leeway[torch]'")

ROOT = Path(__file__).parents[5]
IDENTITY = {"learning_rate": 0.1}
FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import torch
from pipelines.container.torch.processes import format_failure, join_processes
from pipelines.container.torch.sharded_checkpoints import ShardedCheckpoints
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with join_processes() as processes:
    checkpoints = ShardedCheckpoints(Path(sys.argv[1]), {}, processes)
    checkpoints.save(1, {"w": torch.zeros(10)}, {})
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        checkpoints.save(2, {"w": torch.zeros(100_000)}, {})
    except Exception as error:
        print(format_failure(error))
    print(checkpoints.restore().marker.step)
"""
"""Script whose second checkpoint does not fit: no file may have more than 10,000 bytes."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Any]:
    from pipelines.container.torch.processes import join_processes

    with join_processes() as joined:
        yield joined


def make(folder: Path, processes: Any, **options: Any) -> Any:
    from pipelines.container.torch.sharded_checkpoints import ShardedCheckpoints

    return ShardedCheckpoints(folder, options.pop("identity", IDENTITY), processes, **options)


def test_the_last_ones_stay_and_foreign_files_too(tmp_path: Path, processes: Any, capsys: Any) -> None:
    folder = tmp_path / "checkpoints"
    other = make(folder, processes, identity={"learning_rate": 0.2}).save(9, {"w": torch.ones(2)}, {})
    (folder / "notes.txt").write_text("mine")
    (folder / f"{'0' * 8}-{other.split('-')[1]}-00000000").mkdir()
    checkpoints = make(folder, processes, max_checkpoints=2)
    names = [checkpoints.save(step, {"w": torch.full((2,), step)}, {"step": step}) for step in (1, 2, 3)]
    left = {path.name for path in folder.iterdir()}
    assert left == {*names[1:], other, "notes.txt", f"{'0' * 8}-{other.split('-')[1]}-00000000"}
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"], "no temporary folder is left"
    found = make(folder, processes).restore()
    assert found.name == names[-1] and found.marker.state == {"step": 3}
    assert f"checkpoint restored: name={found.name} saved_at={found.marker.saved_at}\n" in capsys.readouterr().out
    tensor = torch.zeros(2)
    values = make(folder, processes).load(found, {"w": tensor})
    assert tensor.tolist() == [3, 3] and values["w"] is tensor


def test_values_that_are_no_tensors_and_scalars_are_restored(tmp_path: Path, processes: Any) -> None:
    saved = {"w": torch.rand(3, 2), "step": torch.tensor(5.0), "lr": 0.25, "betas": [0.9, 0.99], "fused": None}
    checkpoints = make(tmp_path, processes)
    checkpoints.save(1, saved, {})
    values = checkpoints.load(checkpoints.restore(), {**saved, "w": torch.zeros(3, 2), "step": torch.tensor(0.0)})
    assert torch.equal(values["w"], saved["w"]) and values["step"] == 5
    assert {name: values[name] for name in ("lr", "betas", "fused")} == {
        "lr": 0.25,
        "betas": [0.9, 0.99],
        "fused": None,
    }


@pytest.mark.parametrize("tensors", [{"w": torch.zeros(3)}, {}, {"w": torch.zeros(2), "more": torch.zeros(1)}])
def test_a_checkpoint_of_other_tensors_is_refused(tmp_path: Path, processes: Any, tensors: dict[str, Any]) -> None:
    checkpoints = make(tmp_path, processes)
    checkpoints.save(1, {"w": torch.zeros(2)}, {})
    with pytest.raises(DataError, match="is that of another model"):
        checkpoints.load(checkpoints.restore(), tensors)


@pytest.mark.parametrize("options", [{"max_checkpoints": 0}, {"every_s": -1}, {"every_s": float("nan")}])
def test_wrong_options_are_refused(tmp_path: Path, processes: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="max_checkpoints is at least 1 and every_s at least 0"):
        make(tmp_path, processes, **options)


def test_the_time_decides_when_to_save(tmp_path: Path, processes: Any) -> None:
    assert make(tmp_path, processes, every_s=0).is_due()
    assert not make(tmp_path, processes, every_s=1_000).is_due()


def test_a_full_disk_is_named_and_the_checkpoint_before_stays(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "checkpoints")]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    lines = result.stdout.splitlines()
    assert "File too large" in lines[0] and lines[-1] == "1", result.stdout + result.stderr


def test_functions_of_processes_work_alone(processes: Any) -> None:
    assert processes.reduce_max(3, -1) == (3, -1) and processes.reduce_min(2) == 2
    assert processes.gather(1, 2) == [[1, 2]] and processes.reduce_sum(0.5) == (0.5,)
    assert processes.share_bytes(b"") == b"" and processes.share_bytes(b"\x00\xff") == b"\x00\xff"
    processes.require_equal("anything")


def test_errors_of_lost_hosts_are_told_apart() -> None:
    from pipelines.container.torch.processes import format_failure, is_lost_connection

    assert is_lost_connection(RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:1"))
    assert not is_lost_connection(RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"))
    assert not is_lost_connection(Stopped())
    assert format_failure(HostsError("a\nb")) == "a b"
    assert format_failure(ValueError("bad\nException raised from f.cpp")) == "ValueError: bad"
