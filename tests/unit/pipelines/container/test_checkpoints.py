"""Test that a checkpoint is complete or absent after kills, cuts, changed bits, full disks and foreign files."""

import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.container.checkpoints import Checkpoints

IDENTITY = {"eta": 0.1, "data": "abc"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def save_steps(folder: Path, *steps: int, identity: dict[str, Any] = IDENTITY, **options: Any) -> Checkpoints:
    checkpoints = Checkpoints(folder, identity, **options)
    for step in steps:
        checkpoints.save(step, b"payload of %d" % step, {"step": step})
    return checkpoints


def test_a_saved_checkpoint_is_restored_and_logged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {"best": float("inf"), "rounds": [{"loss": 0.1 + 0.2}], "text": "zwei\nZeilen ü"}
    Checkpoints(folder, IDENTITY).save(175, payload := bytes(range(256)) * 9, state)
    checkpoint = Checkpoints(folder, IDENTITY).restore()
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.payload, checkpoint.state) == (175, payload, state)
    line = capsys.readouterr().out
    assert line == f"checkpoint restored: name=000175 saved_at={checkpoint.saved_at}\n"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", checkpoint.saved_at)


def test_a_training_without_a_checkpoint_is_a_cold_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Checkpoints(folder, IDENTITY).restore() is None
    assert capsys.readouterr() == ("checkpoint restored: none\n", "")


def test_an_empty_payload_and_an_empty_state_are_restored(folder: Path) -> None:
    Checkpoints(folder, {}).save(0, b"", {})
    checkpoint = Checkpoints(folder, {}).restore()
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.payload, checkpoint.state) == (0, b"", {})


@pytest.mark.parametrize("max_checkpoints", [1, 2, 3])
def test_only_the_last_checkpoints_are_kept(folder: Path, max_checkpoints: int) -> None:
    save_steps(folder, *range(8, 13), max_checkpoints=max_checkpoints)
    assert list_names(folder) == [f"{step:06d}" for step in range(13 - max_checkpoints, 13)]
    assert list_names(folder.parent) == ["checkpoints"], "there is nothing beside the folder"


def test_the_newest_checkpoint_has_the_most_steps_whatever_its_time(folder: Path) -> None:
    save_steps(folder, 999_999, 1_000_000)
    os.utime(folder / "1000000", (0, 0))
    checkpoint = Checkpoints(folder, IDENTITY).restore()
    assert checkpoint is not None
    assert checkpoint.step == 1_000_000


def test_a_repeated_step_replaces_its_checkpoint(folder: Path) -> None:
    checkpoints = save_steps(folder, 5, 6)
    checkpoints.save(6, b"again", {})
    assert list_names(folder) == ["000005", "000006"]
    assert checkpoints.restore().payload == b"again"


@pytest.mark.parametrize(
    "options", [{"max_checkpoints": 0}, {"max_checkpoints": -1}, {"every_s": -1.0}, {"every_s": float("nan")}]
)
def test_refuses_options_out_of_range(folder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Checkpoints(folder, IDENTITY, **options)


# The interval


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Return the function that advances the time."""
    now = [100.0]
    monkeypatch.setattr("pipelines.container.checkpoints.time.monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


@pytest.mark.parametrize(("step_s", "every_s", "expected"), [(1, 10, 9), (4, 10, 8), (7, 10, 7), (60, 10, 60)])
def test_at_most_the_interval_or_one_longer_step_lies_between_checkpoints(
    folder: Path, advance_clock: Callable[[float], None], step_s: float, every_s: float, expected: float
) -> None:
    checkpoints, since = Checkpoints(folder, IDENTITY, every_s=every_s), 0.0
    for step in range(60):
        advance_clock(step_s)
        since += step_s
        assert since <= max(every_s, step_s)
        if checkpoints.is_due():
            assert since == expected
            checkpoints.save(step, b"", {})
            since = 0.0


def test_with_interval_zero_each_step_is_saved(folder: Path) -> None:
    checkpoints = Checkpoints(folder, IDENTITY, every_s=0)
    assert [checkpoints.is_due() for _ in range(3)] == [True] * 3
    assert not Checkpoints(folder, IDENTITY, every_s=1_000).is_due()


# Broken and foreign files


def test_a_checkpoint_cut_or_changed_anywhere_falls_back_to_the_one_before(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = save_steps(folder, 1, 2)
    complete, generator = (folder / "000002").read_bytes(), random.Random(3)
    broken = [complete[:size] for size in range(len(complete))] + [complete + b"x", bytes(len(complete)), b"\n" * 300]
    for index in range(len(complete)):
        changed = bytearray(complete)
        changed[index] ^= 1 << generator.randrange(8)
        broken.append(bytes(changed))
    for content in broken:
        (folder / "000002").write_bytes(content)
        checkpoint = checkpoints.restore()
        assert checkpoint is not None
        assert checkpoint.step == 1, content
        assert re.search(
            r"^checkpoint 000002 (is|cannot|belongs) .*; trying the one before$", capsys.readouterr().err, re.MULTILINE
        )
    (folder / "000002").write_bytes(complete)
    assert checkpoints.restore().step == 2


def test_broken_checkpoints_are_removed_before_complete_ones(folder: Path) -> None:
    save_steps(folder, 10, 20, 30, max_checkpoints=3)
    for name in ("000020", "000030"):
        with (folder / name).open("r+b") as file:
            file.truncate(90)
    checkpoints = Checkpoints(folder, IDENTITY)
    assert checkpoints.restore().step == 10
    checkpoints.save(15, b"", {})
    assert list_names(folder) == ["000010", "000015"]


def test_foreign_files_are_neither_restored_nor_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = save_steps(folder, 7)
    (folder / "000900").write_text("not ours\n")
    (folder / "000901").mkdir()
    (folder / "000901" / "model.bin").write_bytes(b"x")
    os.mkfifo(folder / "000902")
    (folder / "000903").symlink_to("nowhere")
    (folder / "000904").write_bytes(b"leeway-checkpoint 2 0123456789abcdef 2030-01-01\n{}\n")
    for name in ("README", "²²²²²²", ".hidden", "000905.tmp", "1", "00000906"):
        (folder / name).write_bytes(b"")
    foreign = set(list_names(folder)) - {"000007"}
    assert checkpoints.restore().step == 7
    errors = capsys.readouterr().err
    for name in ("000900", "000901", "000902", "000903", "000904"):
        assert f"checkpoint {name} cannot be read as a checkpoint" in errors
    for step in (8, 9, 900, 901, 1000):
        checkpoints.save(step, b"", {})
    assert set(list_names(folder)) == foreign | {"000009", "001000"}
    assert (folder / "000900").read_text() == "not ours\n"
    assert (folder / "000901" / "model.bin").exists()
    assert "000901 in the checkpoint folder is not a checkpoint: step 901 is not saved" in capsys.readouterr().err


def test_checkpoints_of_another_training_are_neither_restored_nor_changed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_steps(folder, 100, 200)
    other = Checkpoints(folder, {**IDENTITY, "eta": 0.2})
    assert other.restore() is None
    assert "checkpoint 000200 belongs to other hyperparameters or other data" in capsys.readouterr().err
    for step in (1, 2, 3):
        other.save(step, b"", {})
    assert list_names(folder) == ["000002", "000003", "000100", "000200"]
    assert other.restore().step == 3
    assert Checkpoints(folder, dict(reversed(IDENTITY.items()))).restore().step == 200


def test_an_incomplete_synchronisation_restores_the_newest_checkpoint_that_arrived(
    folder: Path, tmp_path: Path
) -> None:
    """Whatever files S3 has, the newest of them is a complete checkpoint."""
    save_steps(folder, 1, 2, 3, max_checkpoints=3)
    for names in (["000003"], ["000001"], ["000001", "000003"], []):
        copy = tmp_path / f"copy-{len(names)}-{'-'.join(names)}"
        copy.mkdir()
        for name in names:
            shutil.copy2(folder / name, copy / name)
        checkpoint = Checkpoints(copy, IDENTITY).restore()
        assert (f"{checkpoint.step:06d}" if checkpoint else None) == max(names, default=None)


# Kills, full disks, read-only folders and mounts

SAVER = """
import os, sys
from pathlib import Path
from pipelines.container.checkpoints import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]), {"a": 1})
checkpoint = checkpoints.restore()
step = checkpoint.step if checkpoint else 0
assert not checkpoint or checkpoint.payload == bytes([checkpoint.step % 256]) * 6_000_000
while True:
    step += 1
    checkpoints.save(step, bytes([step % 256]) * 6_000_000, {"step": step})
    print(step, flush=True)
"""


def is_complete(path: Path) -> bool:
    content = path.read_bytes()
    return hashlib.sha256(content[:-64]).hexdigest().encode() == content[-64:]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.soak)])
def test_a_kill_while_saving_loses_no_checkpoint_and_leaves_none_incomplete(folder: Path, kills: int) -> None:
    generator, last_step = random.Random(5), 0
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        lines += [process.stdout.readline() for _ in range(generator.randrange(1, 6))]
        # The kill comes during the next save, which takes some milliseconds.
        subprocess.run(["sleep", str(generator.random() * 0.01)], check=True)
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines()
        process.wait()
        last_step = max(int(line) for line in lines[1:])
        assert lines[0].startswith("checkpoint restored: "), "the last checkpoint was complete"
        checkpoint = Checkpoints(folder, {"a": 1}).restore()
        assert checkpoint is not None
        assert checkpoint.step in (last_step, last_step + 1), "every reported checkpoint exists"
        assert checkpoint.state == {"step": checkpoint.step}
        assert all(re.fullmatch(r"\d{6}", name) for name in list_names(folder)), "no temporary file is in the folder"
        assert all(is_complete(path) for path in folder.iterdir()), "S3 never gets an incomplete file"
        assert len(list_names(folder)) <= 3, "the kill may come before the oldest is removed"
    Checkpoints(folder, {"a": 1}).save(last_step + 2, b"", {})
    assert len(list_names(folder)) == 2
    assert list_names(folder.parent) == ["checkpoints"], "no temporary files are left beside the folder"


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Return the function that mounts a folder; all mounts end with the test."""
    folders: list[Path] = []

    def mount_folder(folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        process = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
        if process.returncode:
            pytest.skip(f"mounting is not permitted on this machine: {process.stderr.strip()}")
        folders.append(folder)

    yield mount_folder
    for folder in reversed(folders):
        subprocess.run(["umount", "-l", str(folder)], check=True)


TMPFS = ("-t", "tmpfs", "-o", "size=1m", "leeway-test")


def test_a_full_disk_leaves_the_earlier_checkpoints(tmp_path: Path, mount: Callable[..., None]) -> None:
    mount(tmp_path / "disk", *TMPFS)
    folder = tmp_path / "disk" / "checkpoints"
    checkpoints = save_steps(folder, 1, 2)
    with pytest.raises(OSError, match="No space left") as error:
        checkpoints.save(3, bytes(2_000_000), {})
    assert error.value.errno == errno.ENOSPC
    assert list_names(folder) == ["000001", "000002"]
    assert list_names(folder.parent) == ["checkpoints"], "the incomplete file is removed"
    assert checkpoints.restore().step == 2
    checkpoints.save(4, b"smaller", {})
    assert checkpoints.restore().step == 4


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_in_a_mounted_folder_incomplete_files_are_written_inside(
    tmp_path: Path, folder: Path, mount: Callable[..., None], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (tmp_path / "behind").mkdir()
    mount(folder, *(TMPFS if kind == "tmpfs" else ("--bind", str(tmp_path / "behind"))))
    checkpoints = save_steps(folder, 1, 2, 3)
    assert (
        "incomplete checkpoints are written inside the folder, not beside it: Invalid cross-device link"
        in capsys.readouterr().err
    )
    assert checkpoints.restore().step == 3
    assert list_names(folder) == ["000002", "000003"]
    assert list_names(tmp_path) == ["behind", "checkpoints"]


def test_a_read_only_parent_folder_is_no_problem(
    tmp_path: Path, mount: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    parent = tmp_path / "ml"
    mount(parent, *TMPFS)
    mount(parent / "checkpoints", *TMPFS)
    subprocess.run(["mount", "-o", "remount,ro", str(parent)], check=True)
    checkpoints = save_steps(parent / "checkpoints", 1)
    assert "not beside it: Read-only file system" in capsys.readouterr().err
    assert checkpoints.restore().step == 1


def test_a_read_only_folder_is_an_error_at_the_start(tmp_path: Path, mount: Callable[..., None]) -> None:
    """The error must not wait for the first checkpoint."""
    mount(tmp_path / "disk", *TMPFS)
    save_steps(folder := tmp_path / "disk" / "checkpoints", 1)
    subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
    with pytest.raises(OSError, match="Read-only file system"):
        Checkpoints(folder, IDENTITY)


def test_a_file_at_the_path_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError):
        Checkpoints(tmp_path / "file", IDENTITY)


def test_the_first_lines_of_a_checkpoint_are_readable_text(folder: Path) -> None:
    save_steps(folder, 3)
    head, state, rest = (folder / "000003").read_bytes().split(b"\n", 2)
    assert head.startswith(b"leeway-checkpoint 1 ")
    assert json.loads(state) == {"step": 3}
    assert rest.startswith(b"payload of 3")
