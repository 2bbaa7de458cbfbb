"""Workspaces: the code of a commit, what is copied where there is none, and what is removed when it is old."""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.errors import SpecError
from pipelines.versioning import workspaces
from pipelines.versioning.checkouts import digest_code
from pipelines.versioning.git import resolve_commit


@pytest.fixture
def project(toy: Path, home: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Path:
    """The toy project is LEEWAY_PROJECT."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(toy))
    fresh_settings()
    return toy


def commit(project: Path, text: str) -> str:
    (project / "pipelines/work.py").write_text(text)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run([*git, "commit", "-qam", text], cwd=project, check=True)
    return resolve_commit(project, "HEAD")


def worktrees(project: Path) -> int:
    done = subprocess.run(["git", "worktree", "list"], cwd=project, capture_output=True, text=True, check=True)
    return len(done.stdout.splitlines()) - 1


def code(name: str = "one", at: str = "") -> tuple[str, str]:
    """The commit and the file of a workspace."""
    with workspaces.open_workspace(name, {}, at) as space:
        return space.code.git_commit, (space.folder / "pipelines/work.py").read_text()


def test_code_is_that_of_head_or_of_the_commit_that_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = commit(project, "first")
    assert code() == (first, "first")
    second = commit(project, "second")
    assert code() == (second, "second")
    assert code(at=first) == (first, "first"), "it moves back, too"
    assert code("two", first[:10]) == (first, "first")
    monkeypatch.setenv("LEEWAY_GIT_COMMIT", first)
    assert code("three") == (first, "first")
    monkeypatch.setenv("LEEWAY_GIT_COMMIT", "0" * 40)
    assert code("four") == ("0" * 40, "second"), "of another repository: the copy has the name that was given"
    with pytest.raises(SpecError, match="no commit nonsense"):
        code(at="nonsense")


def test_a_dirty_tree_is_copied_on_top_and_marked(project: Path) -> None:
    head = commit(project, "first")
    (project / "pipelines/work.py").write_text("dirty")
    (project / "pipelines/new.py").write_text("new")
    assert code() == (f"{head}-dirty", "dirty")
    assert (workspaces._workspaces_folder() / "one/pipelines/new.py").exists()
    assert digest_code(workspaces._workspaces_folder() / "one") == digest_code(project)
    (project / "pipelines/work.py").write_text("first")
    (project / "pipelines/new.py").unlink()
    assert code() == (head, "first")
    assert not (workspaces._workspaces_folder() / "one/pipelines/new.py").exists()


def test_without_git_it_is_a_copy(project: Path) -> None:
    shutil.rmtree(project / ".git")
    (project / "pipelines/work.py").write_text("copied")
    (project / ".dvcignore").write_text("__pycache__\n")
    assert code() == ("unknown", "copied")
    assert (workspaces._workspaces_folder() / "one/.dvcignore").exists()
    assert digest_code(workspaces._workspaces_folder() / "one") == digest_code(project)
    with pytest.raises(SpecError, match="no git repository"):
        code(at="abc")


def test_what_a_run_made_survives_and_what_it_changed_does_not(project: Path) -> None:
    folder = workspaces._workspaces_folder() / "one"
    head = commit(project, "first")
    code()
    (folder / "data").mkdir()
    (folder / "data/x").write_text("x")
    (folder / "dvc.lock").write_text("schema: '2.0'\n")
    (folder / "pipelines/work.py").write_text("changed")
    assert code() == (head, "first")
    assert (folder / "data/x").exists()
    assert (folder / "dvc.lock").read_text() == "schema: '2.0'\n"


@pytest.mark.parametrize("damage", ["half made", "removed by hand", "its git gone", "a stale index.lock", "locked"])
def test_a_damaged_workspace_is_made_again(project: Path, damage: str) -> None:
    head, folder = commit(project, "first"), workspaces._workspaces_folder() / "one"
    code()
    entry = project / ".git/worktrees/one"
    if damage == "half made":
        (folder / "code.json").unlink()
        (folder / "dvc.yaml").unlink()
    elif damage == "removed by hand":
        shutil.rmtree(folder)
    elif damage == "its git gone":
        shutil.rmtree(entry)
    elif damage == "a stale index.lock":
        (entry / "index.lock").write_text("")
    else:
        shutil.rmtree(folder)
        (entry / "locked").write_text("initializing")
    assert code() == (head, "first")
    assert (folder / "dvc.yaml").exists()


def test_sixteen_at_once_are_sixteen_worktrees(project: Path) -> None:
    head, found, failed = commit(project, "first"), [], []

    def make(n: int) -> None:
        try:
            found.append(code(f"w{n}"))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=make, args=[n]) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert found == [(head, "first")] * 16
    assert worktrees(project) == 16


def aged(name: str) -> Path:
    folder = workspaces._workspaces_folder() / name
    for path in (folder / "data", folder / "code.json", folder):
        if path.exists():
            os.utime(path, (0, 0))
    return folder


def test_old_workspaces_go_and_those_in_use_or_young_stay(project: Path) -> None:
    commit(project, "first")
    for name in ("old", "young", "made-in", "busy"):
        code(name)
    (workspaces._workspaces_folder() / "made-in/data").mkdir()
    for name in ("old", "busy"):
        aged(name)
    aged("made-in")
    os.utime(workspaces._workspaces_folder() / "made-in/data")
    with workspaces.open_workspace("busy", {}):
        aged("busy")
        code("new")
        assert {path.name for path in workspaces._workspaces_folder().glob("[!.]*")} == {
            "young",
            "made-in",
            "busy",
            "new",
        }
    assert worktrees(project) == 4
    aged("busy")
    code("new")
    assert not (workspaces._workspaces_folder() / "busy").exists(), "the negative control: nobody holds it any more"
    assert {path.name for path in workspaces._workspaces_folder().glob(".locks/*")} == {"young", "made-in", "new"}
