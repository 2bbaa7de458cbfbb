"""Test runs whose workspace or cache has damaged files: the features are right nevertheless."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DAY = "2013-01-02"
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) * 2 // 3],
    "empty": lambda _: b"",
    "garbage": lambda _: b"\xff\xfe no file of this kind\n" * 40,
    "other YAML": lambda _: b"a: 1\n",
    "a list": lambda _: b"- 1\n",
}


@pytest.fixture
def run(start_repro: Callable[..., Any], home: Path, tmp_path: Path) -> Callable[[str], str]:
    """Return the function that runs the stage in a workspace, checks the features, and returns the log."""

    def run_stage(workspace: str) -> str:
        code, log = start_repro(workspace, DAY).wait(300), (tmp_path / f"{workspace}.log").read_text()
        assert code == 0, log
        features = sorted((home / "workspaces" / workspace / "data/features").iterdir())
        assert [path.read_text() for path in features] == [f"{DAY} {number}\n" for number in range(3)]
        return log

    return run_stage


def count_runs(tmp_path: Path) -> int:
    """Return how often the stage ran."""
    return len((tmp_path / "runs").read_text().split())


def damage_file(path: Path, damage: str) -> None:
    """Damage a file; a file that is read-only stays so."""
    mode, content = path.stat().st_mode, path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(DAMAGES[damage](content))
    path.chmod(mode)


@pytest.mark.parametrize("damages", [["garbage", "a list"], pytest.param([*DAMAGES], marks=pytest.mark.soak)], ids=str)
def test_a_damaged_dvc_lock_is_replaced_and_nothing_is_computed_again(
    damages: list[str], run: Callable[[str], str], home: Path, tmp_path: Path
) -> None:
    run("one")
    lock = home / "workspaces/one/dvc.lock"
    content = lock.read_bytes()
    for damage in damages:
        damage_file(lock, damage)
        # What a cut leaves may be a valid file.
        assert "workspace one: removed a damaged dvc.lock" in run("one") or damage == "cut", damage
        assert lock.read_bytes() == content
    assert "removed" not in run("one"), "the negative control"
    assert count_runs(tmp_path) == 1


@pytest.mark.parametrize("damage", ["cut", pytest.param("garbage", marks=pytest.mark.soak)])
def test_a_damaged_file_of_the_cache_gives_no_damaged_features(
    damage: str, run: Callable[[str], str], home: Path, tmp_path: Path
) -> None:
    run("one")
    (cached_file,) = (path for path in home.glob("dvc/cache/files/md5/*/*") if path.read_bytes() == b"2013-01-02 1\n")
    damage_file(cached_file, damage)
    assert "data/features: removed, because 1 file(s) from DVC's cache are damaged" in run("two")
    assert count_runs(tmp_path) == 2
    assert cached_file.read_bytes() == b"2013-01-02 1\n", "the cache has the right file again"
    assert "are damaged" not in run("three"), "the negative control"
    assert count_runs(tmp_path) == 2


@pytest.mark.parametrize(
    "damages", [["garbage"], pytest.param(["garbage", "other YAML", "no entry"], marks=pytest.mark.soak)], ids=str
)
def test_damaged_entries_of_the_run_cache_are_computed_again(
    damages: list[str], run: Callable[[str], str], home: Path, tmp_path: Path
) -> None:
    """`no entry` is what a DVC leaves that is killed before it writes the entry."""
    run("one")
    for number, damage in enumerate(damages, start=2):
        (entry,) = home.glob("dvc/cache/runs/*/*/*")
        if damage == "no entry":
            entry.unlink()
            os.utime(entry.parent, (0, 0))
        else:
            damage_file(entry, damage)
        shutil.rmtree(home / "workspaces/one")
        run("one")
        assert count_runs(tmp_path) == number


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "cut"])
def test_a_damaged_dvc_yaml_of_the_project_is_one_line(
    damage: str, start_repro: Callable[..., Any], toy_project: Path, tmp_path: Path
) -> None:
    damage_file(toy_project / "dvc.yaml", damage)
    assert start_repro("one", DAY).wait(300) == 2
    lines = [line for line in (tmp_path / "one.log").read_text().splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "dvc.yaml" in lines[0] and "bug of Leeway" not in lines[0], lines
    assert not os.path.exists(tmp_path / "runs")
