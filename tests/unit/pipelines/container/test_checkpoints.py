"""Checkpoints: whole or not there, whatever is killed, cut, flipped, full, or put among them."""

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

OF = {"eta": 0.1, "data": "abc"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved(folder: Path, *steps: int, of: dict[str, Any] = OF, **options: Any) -> Checkpoints:
    made = Checkpoints(folder, of, **options)
    for step in steps:
        made.save(step, b"payload of %d" % step, {"step": step})
    return made


def test_what_is_saved_comes_back_and_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {"best": float("inf"), "rounds": [{"loss": 0.1 + 0.2}], "text": "zwei\nZeilen ü"}
    Checkpoints(folder, OF).save(175, payload := bytes(range(256)) * 9, state)
    found = Checkpoints(folder, OF).restore()
    assert found is not None
    assert (found.step, found.payload, found.state) == (175, payload, state)
    line = capsys.readouterr().out
    assert line == f"checkpoint restored: name=000175 saved_at={found.saved_at}\n"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", found.saved_at)


def test_without_one_it_is_a_cold_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Checkpoints(folder, OF).restore() is None
    assert capsys.readouterr() == ("checkpoint restored: none\n", "")


def test_an_empty_payload_and_an_empty_state(folder: Path) -> None:
    Checkpoints(folder, {}).save(0, b"", {})
    found = Checkpoints(folder, {}).restore()
    assert found is not None
    assert (found.step, found.payload, found.state) == (0, b"", {})


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_last_few_are_kept(folder: Path, keep: int) -> None:
    saved(folder, *range(8, 13), keep=keep)
    assert kept(folder) == [f"{step:06d}" for step in range(13 - keep, 13)]
    assert kept(folder.parent) == ["checkpoints"], "nothing beside it"


def test_newest_is_the_most_steps_whatever_the_clocks_say(folder: Path) -> None:
    saved(folder, 999_999, 1_000_000)
    os.utime(folder / "1000000", (0, 0))
    found = Checkpoints(folder, OF).restore()
    assert found is not None
    assert found.step == 1_000_000


def test_the_same_step_again_takes_its_place(folder: Path) -> None:
    made = saved(folder, 5, 6)
    made.save(6, b"again", {})
    assert kept(folder) == ["000005", "000006"]
    assert made.restore().payload == b"again"  # type: ignore[union-attr]


@pytest.mark.parametrize("options", [{"keep": 0}, {"keep": -1}, {"every_s": -1.0}, {"every_s": float("nan")}])
def test_options_out_of_range(folder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Checkpoints(folder, OF, **options)


# The timer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Moves the time on."""
    now = [100.0]
    monkeypatch.setattr("pipelines.container.checkpoints.time.monotonic", lambda: now[0])

    def later(seconds: float) -> None:
        now[0] += seconds

    return later  # type: ignore[return-value]


@pytest.mark.parametrize(("step_s", "every_s", "expected"), [(1, 10, 9), (4, 10, 8), (7, 10, 7), (60, 10, 60)])
def test_no_more_than_the_interval_is_ever_at_stake(
    folder: Path, clock: Callable[[float], None], step_s: float, every_s: float, expected: float
) -> None:
    """Between two checkpoints lies at most the interval, or one step where that is longer."""
    made, since = Checkpoints(folder, OF, every_s=every_s), 0.0
    for step in range(60):
        clock(step_s)
        since += step_s
        assert since <= max(every_s, step_s)
        if made.is_due():
            assert since == expected
            made.save(step, b"", {})
            since = 0.0


def test_interval_zero_is_each_step(folder: Path) -> None:
    made = Checkpoints(folder, OF, every_s=0)
    assert [made.is_due() for _ in range(3)] == [True] * 3
    assert not Checkpoints(folder, OF, every_s=1_000).is_due()


# What is broken, and what is not ours


def test_cut_or_flipped_anywhere_it_falls_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = saved(folder, 1, 2)
    whole, chance = (folder / "000002").read_bytes(), random.Random(3)
    broken = [whole[:size] for size in range(len(whole))] + [whole + b"x", bytes(len(whole)), b"\n" * 300]
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        broken.append(bytes(flipped))
    for content in broken:
        (folder / "000002").write_bytes(content)
        found = made.restore()
        assert found is not None
        assert found.step == 1, content
        assert re.search(
            r"^checkpoint 000002 (is|cannot|belongs) .*; trying the one before$", capsys.readouterr().err, re.MULTILINE
        )
    (folder / "000002").write_bytes(whole)
    assert made.restore().step == 2  # type: ignore[union-attr]


def test_broken_ones_make_room_for_whole_ones(folder: Path) -> None:
    saved(folder, 10, 20, 30, keep=3)
    for name in ("000020", "000030"):
        with (folder / name).open("r+b") as file:
            file.truncate(90)
    made = Checkpoints(folder, OF)
    assert made.restore().step == 10  # type: ignore[union-attr]
    made.save(15, b"", {})
    assert kept(folder) == ["000010", "000015"]


def test_foreign_files_are_neither_taken_nor_touched(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = saved(folder, 7)
    (folder / "000900").write_text("not ours\n")
    (folder / "000901").mkdir()
    (folder / "000901" / "model.bin").write_bytes(b"x")
    os.mkfifo(folder / "000902")
    (folder / "000903").symlink_to("nowhere")
    (folder / "000904").write_bytes(b"leeway-checkpoint 2 0123456789abcdef 2030-01-01\n{}\n")
    for name in ("README", "²²²²²²", ".hidden", "000905.tmp", "1", "00000906"):
        (folder / name).write_bytes(b"")
    foreign = set(kept(folder)) - {"000007"}
    assert made.restore().step == 7  # type: ignore[union-attr]
    said = capsys.readouterr().err
    for name in ("000900", "000901", "000902", "000903", "000904"):
        assert f"checkpoint {name} cannot be read as a checkpoint" in said
    for step in (8, 9, 900, 901, 1000):
        made.save(step, b"", {})
    assert set(kept(folder)) == foreign | {"000009", "001000"}
    assert (folder / "000900").read_text() == "not ours\n"
    assert (folder / "000901" / "model.bin").exists()
    assert "000901 in the checkpoint folder is no checkpoint: step 901 is not saved" in capsys.readouterr().err


def test_another_training_s_are_neither_taken_nor_touched(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(folder, 100, 200)
    other = Checkpoints(folder, {**OF, "eta": 0.2})
    assert other.restore() is None
    assert "checkpoint 000200 belongs to other hyperparameters or other data" in capsys.readouterr().err
    for step in (1, 2, 3):
        other.save(step, b"", {})
    assert kept(folder) == ["000002", "000003", "000100", "000200"]
    assert other.restore().step == 3  # type: ignore[union-attr]
    assert Checkpoints(folder, dict(reversed(OF.items()))).restore().step == 200  # type: ignore[union-attr]


def test_half_a_synchronisation_is_an_older_one(folder: Path, tmp_path: Path) -> None:
    """Whatever files S3 has, the newest of them is a whole checkpoint."""
    saved(folder, 1, 2, 3, keep=3)
    for names in (["000003"], ["000001"], ["000001", "000003"], []):
        copy = tmp_path / f"copy-{len(names)}-{'-'.join(names)}"
        copy.mkdir()
        for name in names:
            shutil.copy2(folder / name, copy / name)
        found = Checkpoints(copy, OF).restore()
        assert (f"{found.step:06d}" if found else None) == max(names, default=None)


# Killed, full, read-only, mounted

SAVER = """
import os, sys
from pathlib import Path
from pipelines.container.checkpoints import Checkpoints
made = Checkpoints(Path(sys.argv[1]), {"a": 1})
found = made.restore()
step = found.step if found else 0
assert not found or found.payload == bytes([found.step % 256]) * 6_000_000
while True:
    step += 1
    made.save(step, bytes([step % 256]) * 6_000_000, {"step": step})
    print(step, flush=True)
"""


def sealed(path: Path) -> bool:
    content = path.read_bytes()
    return hashlib.sha256(content[:-64]).hexdigest().encode() == content[-64:]


def test_killed_while_saving_no_checkpoint_is_half_and_none_is_lost(folder: Path) -> None:
    chance, done = random.Random(5), 0
    for _ in range(20):
        child = subprocess.Popen([sys.executable, "-c", SAVER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        lines = [child.stdout.readline()]
        lines += [child.stdout.readline() for _ in range(chance.randrange(1, 6))]
        # Somewhere in the next save: it takes some milliseconds.
        subprocess.run(["sleep", str(chance.random() * 0.01)], check=True)
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines()
        child.wait()
        done = max(int(line) for line in lines[1:])
        assert lines[0].startswith("checkpoint restored: "), "the one before was whole"
        found = Checkpoints(folder, {"a": 1}).restore()
        assert found is not None
        assert found.step in (done, done + 1), "what was said to be saved is there"
        assert found.state == {"step": found.step}
        assert all(re.fullmatch(r"\d{6}", name) for name in kept(folder)), "nothing is made inside"
        assert all(sealed(path) for path in folder.iterdir()), "at no moment would S3 have got half of one"
        assert len(kept(folder)) <= 3, "killed before the oldest could go"
    Checkpoints(folder, {"a": 1}).save(done + 2, b"", {})
    assert len(kept(folder)) == 2
    assert kept(folder.parent) == ["checkpoints"], "nothing piles up beside it"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Mounts; what was mounted is gone after the test."""
    made: list[Path] = []

    def mount(folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
        made.append(folder)

    yield mount
    for folder in reversed(made):
        subprocess.run(["umount", "-l", str(folder)], check=True)


TMPFS = ("-t", "tmpfs", "-o", "size=1m", "leeway-test")


def test_a_full_disk_leaves_the_ones_before(tmp_path: Path, mounted: Callable[..., None]) -> None:
    mounted(tmp_path / "disk", *TMPFS)
    folder = tmp_path / "disk" / "checkpoints"
    made = saved(folder, 1, 2)
    with pytest.raises(OSError, match="No space left") as caught:
        made.save(3, bytes(2_000_000), {})
    assert caught.value.errno == errno.ENOSPC
    assert kept(folder) == ["000001", "000002"]
    assert kept(folder.parent) == ["checkpoints"], "what was begun gives its space back"
    assert made.restore().step == 2  # type: ignore[union-attr]
    made.save(4, b"smaller", {})
    assert made.restore().step == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_a_mount_of_its_own_is_written_inside(
    tmp_path: Path, folder: Path, mounted: Callable[..., None], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (tmp_path / "behind").mkdir()
    mounted(folder, *(TMPFS if kind == "tmpfs" else ("--bind", str(tmp_path / "behind"))))
    made = saved(folder, 1, 2, 3)
    assert (
        "incomplete checkpoints are written inside the folder, not beside it: Invalid cross-device link"
        in capsys.readouterr().err
    )
    assert made.restore().step == 3  # type: ignore[union-attr]
    assert kept(folder) == ["000002", "000003"]
    assert kept(tmp_path) == ["behind", "checkpoints"]


def test_a_parent_that_is_read_only_is_not_needed(
    tmp_path: Path, mounted: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    parent = tmp_path / "ml"
    mounted(parent, *TMPFS)
    mounted(parent / "checkpoints", *TMPFS)
    subprocess.run(["mount", "-o", "remount,ro", str(parent)], check=True)
    made = saved(parent / "checkpoints", 1)
    assert "not beside it: Read-only file system" in capsys.readouterr().err
    assert made.restore().step == 1  # type: ignore[union-attr]


def test_a_folder_that_cannot_be_written_is_said_at_the_start(tmp_path: Path, mounted: Callable[..., None]) -> None:
    """Not half an hour later."""
    mounted(tmp_path / "disk", *TMPFS)
    saved(folder := tmp_path / "disk" / "checkpoints", 1)
    subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
    with pytest.raises(OSError, match="Read-only file system"):
        Checkpoints(folder, OF)


def test_a_file_in_the_folder_s_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError):
        Checkpoints(tmp_path / "file", OF)


def test_the_first_lines_can_be_read_by_a_person(folder: Path) -> None:
    saved(folder, 3)
    head, state, rest = (folder / "000003").read_bytes().split(b"\n", 2)
    assert head.startswith(b"leeway-checkpoint 1 ")
    assert json.loads(state) == {"step": 3}
    assert rest.startswith(b"payload of 3")
