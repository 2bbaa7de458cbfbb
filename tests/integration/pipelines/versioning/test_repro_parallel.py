"""Test concurrent and killed runs: each window is computed once, and no entry of the cache is corrupt."""

import hashlib
import json
import random
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.groups import signal_group


def read_runs(tmp_path: Path) -> list[str]:
    """Return the days for which the stage ran, sorted."""
    path = tmp_path / "runs"
    return sorted(path.read_text().split()) if path.exists() else []


def list_entries(home: Path) -> dict[str, Path]:
    """Return the files of the cache by the MD5 that their names give."""
    paths = (path for path in (home / "dvc/cache/files/md5").glob("??/*") if len(path.name.split(".")[0]) == 30)
    return {path.parent.name + path.name.removesuffix(".dir"): path for path in paths}


def find_corrupt_entries(home: Path) -> list[str]:
    """Return the names of the entries whose content has another MD5."""
    return [name for name, path in list_entries(home).items() if hashlib.md5(path.read_bytes()).hexdigest() != name]


@pytest.mark.parametrize("count", [4, pytest.param(16, marks=pytest.mark.soak)])
def test_many_runs_at_once_compute_each_window_once(
    start_repro: Any, home: Path, toy_project: Path, tmp_path: Path, count: int
) -> None:
    days = [f"2013-02-{1 + n % (count // 2):02d}" for n in range(count)]
    children = [start_repro(f"run{n}", day) for n, day in enumerate(days)]
    codes = [child.wait(timeout=500) for child in children]
    logs = {n: (tmp_path / f"run{n}.log").read_text() for n in range(count)}
    assert codes == [0] * count, [logs[n][-800:] for n, code in enumerate(codes) if code]
    assert read_runs(tmp_path) == sorted(set(days)), "each window is computed once"
    for n, day in enumerate(days):
        assert (home / f"workspaces/run{n}/data/features/1").read_text() == f"{day} 1\n"
    assert find_corrupt_entries(home) == []
    assert not [log for log in logs.values() if "Unable to acquire lock" in log or "Traceback" in log]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=toy_project, capture_output=True, text=True
    ).stdout.strip()
    assert {json.loads(path.read_text())["git_commit"] for path in home.glob("workspaces/*/code.json")} == {commit}
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=toy_project, capture_output=True, text=True
    ).stdout.splitlines()
    assert len(worktrees) == count + 1  # the project's own, and one for each run
    assert not list((home / "dvc/locks").iterdir())


@pytest.mark.soak
def test_without_the_lock_two_runs_compute_the_same_window(
    toy_project: Path, home: Path, tmp_path: Path, monkeypatch: Any, fresh_settings: Any
) -> None:
    """This is the negative control: each run waits until both have started the stage."""
    from pipelines.versioning import dvc_calls, workspaces

    for name, value in {"LEEWAY_PROJECT": toy_project, "RUN_LOG": tmp_path / "runs", "RUNS_TO_WAIT_FOR": "2"}.items():
        monkeypatch.setenv(name, str(value))
    fresh_settings()

    def run(name: str) -> None:
        with workspaces.open_workspace(name, {"snapshot": {"as_of": "2013-02-01"}}) as workspace:
            dvc_calls.run_repro(workspace, ["features"])

    threads = [threading.Thread(target=run, args=[name]) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_runs(tmp_path) == ["2013-02-01"] * 2


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_a_killed_run_leaves_no_corrupt_entry_and_can_be_repeated(
    start_repro: Any, home: Path, tmp_path: Path, until: Callable[..., Any], commands: Any, kills: int
) -> None:
    size = {"TOY_FILES": "60", "TOY_LINES": "60000"}
    randomness, kill_counts, runs = random.Random(4), [0, 0], 0
    cache = home / "dvc/cache/files/md5"

    def make_condition(folder: Path, number: int) -> Callable[[], bool]:
        """Return a function that returns whether the folder has at least this number of files."""
        return lambda: sum(1 for path in folder.rglob("*") if path.is_file()) >= number

    # Runs are killed in turn: one while the stage runs, the next while DVC writes the cache. A run that ends before
    # the signal does not count.
    while min(kill_counts) < kills:
        day, name, kind = f"2013-03-{1 + runs:02d}", f"run{runs}", runs % 2
        before = sum(1 for path in cache.rglob("*") if path.is_file())
        condition = [
            make_condition(home / "workspaces" / name / "data/features", randomness.randint(1, 59)),  # the stage runs
            make_condition(cache, before + randomness.randint(1, 60)),  # DVC writes the cache
        ][kind]
        child = start_repro(name, day, **size)
        until(lambda child=child, condition=condition: child.poll() is not None or condition(), max_pause_s=0.01)
        signal_group(child)
        kill_counts[kind] += child.wait() == -signal.SIGKILL
        until(lambda child=child: not commands.list_members(child.pid))  # DVC and the stage may end a moment later
        assert find_corrupt_entries(home) == []
        repeat = start_repro(name, day, **size)
        assert repeat.wait(timeout=300) == 0, (tmp_path / f"{name}.log").read_text()[-2_000:]
        assert find_corrupt_entries(home) == []
        features = home / "workspaces" / name / "data/features"
        assert {path.name for path in features.iterdir()} == {str(number) for number in range(60)}
        assert all(path.read_bytes() == f"{day} {path.name}\n".encode() * 60_000 for path in features.iterdir())
        runs += 1
        assert runs < 30, f"of {runs} runs only {kill_counts} were killed"
    assert len(list_entries(home)) >= runs * 61  # of each run 60 files, and their folder


def test_an_incomplete_lock_file_is_restored_from_its_backup(start_repro: Any, home: Path, tmp_path: Path) -> None:
    from pipelines.versioning.workspaces import LOCK_BACKUP

    assert start_repro("one", "2013-04-01").wait(timeout=300) == 0
    folder = home / "workspaces/one"
    text = (folder / "dvc.lock").read_text()
    (folder / "dvc.lock").write_text(text[: len(text) // 2])
    backup = f"{text}# of the backup\n"
    (folder / LOCK_BACKUP).write_text(backup)
    assert start_repro("one", "2013-04-01").wait(timeout=300) == 0
    assert (folder / "dvc.lock").read_text() == backup, "it was not written anew from the run cache"
    assert read_runs(tmp_path) == ["2013-04-01"]


@pytest.mark.soak
def test_a_corrupt_entry_is_found(start_repro: Any, home: Path) -> None:
    """This is the negative control of the checks for corrupt entries."""
    assert start_repro("one", "2013-04-01").wait(timeout=300) == 0
    assert find_corrupt_entries(home) == []
    path = next(iter(list_entries(home).values()))
    path.chmod(0o644)
    path.write_bytes(b"cut")
    assert len(find_corrupt_entries(home)) == 1
