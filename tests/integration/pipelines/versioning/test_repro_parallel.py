"""Many runs at once, and runs killed at any moment: one computation a window, and a cache without a broken entry."""

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


def ran(tmp_path: Path) -> list[str]:
    path = tmp_path / "count"
    return sorted(path.read_text().split()) if path.exists() else []


def entries(home: Path) -> dict[str, Path]:
    """MD5 as the name says to file, of the cache."""
    found = (path for path in (home / "dvc/cache/files/md5").glob("??/*") if len(path.name.split(".")[0]) == 30)
    return {path.parent.name + path.name.removesuffix(".dir"): path for path in found}


def broken(home: Path) -> list[str]:
    return [name for name, path in entries(home).items() if hashlib.md5(path.read_bytes()).hexdigest() != name]


def test_sixteen_runs_at_once_compute_each_window_once(repro: Any, home: Path, toy: Path, tmp_path: Path) -> None:
    days = [f"2013-02-{1 + n % 8:02d}" for n in range(16)]
    children = [repro(f"run{n}", day) for n, day in enumerate(days)]
    codes = [child.wait(timeout=500) for child in children]
    logs = {n: (tmp_path / f"run{n}.log").read_text() for n in range(16)}
    assert codes == [0] * 16, [logs[n][-800:] for n, code in enumerate(codes) if code]
    assert ran(tmp_path) == sorted(set(days)), "one computation a window"
    for n, day in enumerate(days):
        assert (home / f"workspaces/run{n}/data/features/1").read_text() == f"{day} 1\n"
    assert broken(home) == []
    assert not [log for log in logs.values() if "Unable to acquire lock" in log or "Traceback" in log]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=toy, capture_output=True, text=True).stdout.strip()
    assert {json.loads(path.read_text())["git_commit"] for path in home.glob("workspaces/*/code.json")} == {commit}
    listed = subprocess.run(["git", "worktree", "list"], cwd=toy, capture_output=True, text=True).stdout.splitlines()
    assert len(listed) == 17
    assert not list((home / "dvc/locks").iterdir())


def test_without_the_lock_two_would_compute_the_same(
    toy: Path, home: Path, tmp_path: Path, monkeypatch: Any, fresh_settings: Any
) -> None:
    """The negative control: each of the two waits for the other to have begun."""
    from pipelines.versioning import dvc_calls, workspaces

    for name, value in {"LEEWAY_PROJECT": toy, "COUNT": tmp_path / "count", "TOGETHER": "2"}.items():
        monkeypatch.setenv(name, str(value))
    fresh_settings()

    def run(name: str) -> None:
        with workspaces.open_workspace(name, {"snapshot": {"as_of": "2013-02-01"}}) as space:
            dvc_calls.repro(space, ["features"])

    threads = [threading.Thread(target=run, args=[name]) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ran(tmp_path) == ["2013-02-01"] * 2


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_killed_at_any_moment_it_leaves_nothing_broken_and_goes_on(
    repro: Any, home: Path, tmp_path: Path, until: Callable[..., Any], commands: Any, kills: int
) -> None:
    size = {"TOY_FILES": "60", "TOY_LINES": "60000"}
    chance, killed, runs = random.Random(4), [0, 0], 0
    cached = home / "dvc/cache/files/md5"

    def made(folder: Path, least: int) -> Callable[[], bool]:
        return lambda: sum(1 for path in folder.rglob("*") if path.is_file()) >= least

    while (
        min(killed) < kills
    ):  # a run that was over before the signal came counts for nothing, and another one is killed
        day, name = f"2013-03-{1 + runs:02d}", f"run{runs}"
        before = sum(1 for path in cached.rglob("*") if path.is_file())
        moment = [
            made(home / "workspaces" / name / "data/features", chance.randint(1, 59)),  # in the stage
            made(cached, before + chance.randint(1, 60)),  # in DVC's caching
        ][kind := runs % 2]
        child = repro(name, day, **size)
        until(lambda child=child, moment=moment: child.poll() is not None or moment(), most_s=0.01)
        signal_group(child)
        killed[kind] += child.wait() == -signal.SIGKILL
        until(lambda child=child: not commands.members(child.pid))  # DVC and the stage may end a moment after it
        assert broken(home) == []
        again = repro(name, day, **size)
        assert again.wait(timeout=300) == 0, (tmp_path / f"{name}.log").read_text()[-2_000:]
        assert broken(home) == []
        features = home / "workspaces" / name / "data/features"
        assert {path.name for path in features.iterdir()} == {str(number) for number in range(60)}
        assert all(path.read_bytes() == f"{day} {path.name}\n".encode() * 60_000 for path in features.iterdir())
        runs += 1
        assert runs < 30, f"of {runs} runs only {killed} were killed"
    assert len(entries(home)) >= runs * 61


def test_a_lock_file_cut_off_in_the_middle_is_taken_back(repro: Any, home: Path, tmp_path: Path) -> None:
    from pipelines.versioning.workspaces import LOCK_BACKUP

    assert repro("one", "2013-04-01").wait(timeout=300) == 0
    folder = home / "workspaces/one"
    whole = (folder / "dvc.lock").read_text()
    (folder / "dvc.lock").write_text(whole[: len(whole) // 2])
    assert repro("one", "2013-04-01").wait(timeout=300) == 2, "the negative control: DVC refuses such a file"
    (folder / LOCK_BACKUP).write_text(whole)
    assert repro("one", "2013-04-01").wait(timeout=300) == 0
    assert (folder / "dvc.lock").read_text() == whole
    assert ran(tmp_path) == ["2013-04-01"]


def test_a_cache_entry_that_is_broken_is_seen(repro: Any, home: Path) -> None:
    assert repro("one", "2013-04-01").wait(timeout=300) == 0
    assert broken(home) == []
    path = next(iter(entries(home).values()))
    path.chmod(0o644)
    path.write_bytes(b"cut")
    assert len(broken(home)) == 1
