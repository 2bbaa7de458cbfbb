"""Test workspaces: they have the code of a commit or a copy of the project, and old ones are removed."""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines import params
from pipelines.errors import SpecError
from pipelines.steps import repro
from pipelines.versioning import workspaces
from pipelines.versioning.checkouts import digest_code
from pipelines.versioning.git import resolve_commit


@pytest.fixture
def project(toy_project: Path, home: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Path:
    """Set LEEWAY_PROJECT to the toy project, and return it."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(toy_project))
    fresh_settings()
    return toy_project


def commit_code(project: Path, text: str) -> str:
    """Commit a text as the code of the stage; return the commit."""
    (project / "pipelines/work.py").write_text(text)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run([*git, "commit", "-qam", text], cwd=project, check=True)
    return resolve_commit(project, "HEAD")


def count_worktrees(project: Path) -> int:
    """Return the number of git worktrees besides the project."""
    process = subprocess.run(["git", "worktree", "list"], cwd=project, capture_output=True, text=True, check=True)
    return len(process.stdout.splitlines()) - 1


def read_code(name: str = "one", commit: str = "", bundle_version: str = "", model: str = "") -> tuple[str, str]:
    """Open a workspace at a commit; return its commit and the code of its stage."""
    with workspaces.open_workspace(name, {}, commit, bundle_version, model=model) as workspace:
        return workspace.code.git_commit, (workspace.folder / "pipelines/work.py").read_text()


def test_a_workspace_has_the_code_of_head_or_of_the_requested_commit(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit_code(project, "first")
    assert read_code() == (first, "first")
    second = commit_code(project, "second")
    assert read_code() == (second, "second")
    assert read_code(commit=first) == (first, "first"), "the workspace can go back to an older commit"
    assert read_code("two", first[:10]) == (first, "first")
    monkeypatch.setenv("LEEWAY_GIT_COMMIT", first)
    assert read_code("three") == (first, "first")
    monkeypatch.setenv("LEEWAY_GIT_COMMIT", "0" * 40)
    assert read_code("four") == ("0" * 40, "second"), (
        "the commit is of another repository: the workspace is a copy with this name"
    )
    with pytest.raises(SpecError, match="no commit nonsense"):
        read_code(commit="nonsense")


def test_a_workspace_has_the_code_of_the_dag_bundle(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The run's commit counts, whatever the project and LEEWAY_GIT_COMMIT have now."""
    first, second = commit_code(project, "first"), commit_code(project, "second")
    (project / "pipelines/work.py").write_text("dirty")
    with caplog.at_level("INFO"):
        assert read_code(bundle_version=first) == (first, "first")
    assert f"workspace one: the code is that of commit {first}" in caplog.text
    assert read_code(bundle_version=first, commit="HEAD") == (second, "second"), "a requested commit has precedence"
    monkeypatch.setenv("LEEWAY_GIT_COMMIT", second)
    assert read_code(bundle_version=first) == (first, "first")
    with pytest.raises(SpecError, match=f"has no commit {'0' * 40}, the version of the run's DAG bundle"):
        read_code(bundle_version="0" * 40)


@pytest.mark.parametrize("version", ["", "main", "v1.2", "2026-11-23T12:00:00"])
def test_a_dag_bundle_whose_version_is_no_commit_changes_nothing(
    project: Path, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    head = commit_code(project, "first")
    subprocess.run(["git", "branch", "-f", "v1.2", "HEAD~1"], cwd=project, check=True)
    with caplog.at_level("INFO"):
        assert read_code(bundle_version=version) == (head, "first")
    assert f"the code is that of commit {head}" in caplog.text
    assert (f"the code is not that of the DAG bundle's version {version}" in caplog.text) == bool(version)


def test_uncommitted_changes_are_copied_and_marked(project: Path) -> None:
    head = commit_code(project, "first")
    (project / "pipelines/work.py").write_text("dirty")
    (project / "pipelines/new.py").write_text("new")
    assert read_code() == (f"{head}-dirty", "dirty")
    assert (workspaces._get_workspaces_folder() / "one/pipelines/new.py").exists()
    assert digest_code(workspaces._get_workspaces_folder() / "one") == digest_code(project)
    (project / "pipelines/work.py").write_text("first")
    (project / "pipelines/new.py").unlink()
    assert read_code() == (head, "first")
    assert not (workspaces._get_workspaces_folder() / "one/pipelines/new.py").exists()


def test_without_git_the_workspace_is_a_copy(project: Path) -> None:
    shutil.rmtree(project / ".git")
    (project / "pipelines/work.py").write_text("copied")
    (project / ".dvcignore").write_text("__pycache__\n")
    assert read_code() == ("unknown", "copied")
    assert (workspaces._get_workspaces_folder() / "one/.dvcignore").exists()
    assert digest_code(workspaces._get_workspaces_folder() / "one") == digest_code(project)
    assert read_code(bundle_version="0" * 40) == ("unknown", "copied"), "an image without .git has its own code only"
    with pytest.raises(SpecError, match="is not a git repository"):
        read_code(commit="abc")


def test_outputs_of_a_run_stay_and_its_changes_of_code_do_not(project: Path) -> None:
    folder = workspaces._get_workspaces_folder() / "one"
    head = commit_code(project, "first")
    read_code()
    (folder / "data").mkdir()
    (folder / "data/x").write_text("x")
    (folder / "dvc.lock").write_text("schema: '2.0'\n")
    (folder / "pipelines/work.py").write_text("changed")
    assert read_code() == (head, "first")
    assert (folder / "data/x").exists()
    assert (folder / "dvc.lock").read_text() == "schema: '2.0'\n"


@pytest.mark.parametrize("damage", ["incomplete", "removed", "git entry removed", "stale index.lock", "locked"])
def test_a_damaged_workspace_is_created_again(project: Path, damage: str) -> None:
    head, folder = commit_code(project, "first"), workspaces._get_workspaces_folder() / "one"
    read_code()
    entry = project / ".git/worktrees/one"
    if damage == "incomplete":
        (folder / "code.json").unlink()
        (folder / "dvc.yaml").unlink()
    elif damage == "removed":
        shutil.rmtree(folder)
    elif damage == "git entry removed":
        shutil.rmtree(entry)
    elif damage == "stale index.lock":
        (entry / "index.lock").write_text("")
    else:
        shutil.rmtree(folder)
        (entry / "locked").write_text("initializing")
    assert read_code() == (head, "first")
    assert (folder / "dvc.yaml").exists()


@pytest.mark.soak
def test_sixteen_workspaces_can_be_created_at_once(project: Path) -> None:
    head, codes, errors = commit_code(project, "first"), [], []

    def create(n: int) -> None:
        try:
            codes.append(read_code(f"w{n}"))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=create, args=[n]) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert codes == [(head, "first")] * 16
    assert count_worktrees(project) == 16


def age_workspace(name: str) -> Path:
    """Set the modification times of a workspace to 1970."""
    folder = workspaces._get_workspaces_folder() / name
    for path in (folder / "data", folder / "code.json", folder):
        if path.exists():
            os.utime(path, (0, 0))
    return folder


def test_only_old_workspaces_that_no_process_uses_are_removed(project: Path) -> None:
    commit_code(project, "first")
    for name in ("old", "young", "with-outputs", "busy"):
        read_code(name)
    (workspaces._get_workspaces_folder() / "with-outputs/data").mkdir()
    for name in ("old", "busy"):
        age_workspace(name)
    age_workspace("with-outputs")
    os.utime(workspaces._get_workspaces_folder() / "with-outputs/data")
    with workspaces.open_workspace("busy", {}):
        age_workspace("busy")
        read_code("new")
        assert {path.name for path in workspaces._get_workspaces_folder().glob("[!.]*")} == {
            "young",
            "with-outputs",
            "busy",
            "new",
        }
    assert count_worktrees(project) == 4
    age_workspace("busy")
    read_code("new")
    assert not (workspaces._get_workspaces_folder() / "busy").exists(), (
        "the negative control: no process uses it any more"
    )
    assert {path.name for path in workspaces._get_workspaces_folder().glob(".locks/*")} == {
        "young",
        "with-outputs",
        "new",
    }


def write_model(project: Path, name: str, as_of: str, rounds: int) -> None:
    """Write the file of a model's parameters."""
    folder = project / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    text = f'snapshot: {{as_of: "{as_of}"}}\ntrain: {{hyperparameters: {{num_round: {rounds}}}}}\n'
    (folder / "params.yaml").write_text(text)


def test_models_with_equal_parameters_of_a_stage_share_its_result(
    project: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage depends on the section `snapshot`; the third model has another one."""
    (project / "params.yaml").write_text("{}")
    stage = {"matrix": {"model": ["late", "delay", "status"]}, "wdir": "models/${item.model}"}
    stage |= {"cmd": "python ../../pipelines/work.py", "deps": ["../../pipelines/work.py"]}
    stage |= {"params": ["snapshot.as_of"], "outs": ["data/features"]}
    (project / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"features": stage}}))
    run_log = tmp_path / "runs"
    run_log.touch()
    monkeypatch.setenv("RUN_LOG", str(run_log))
    write_model(project, "late", "2013-03-01", 10)
    write_model(project, "delay", "2013-03-01", 20)
    write_model(project, "status", "2013-04-01", 10)

    def reproduce(model: str, **overrides: Any) -> repro.ReproResult:
        fields = {"workspace": model, "model": model, "params": overrides}
        return repro.run(repro.ReproSpec(targets=["features"], **fields))

    assert [reproduce(name).ran for name in ("late", "delay", "status")] == [["features"], [], ["features"]]
    assert run_log.read_text().split() == ["2013-03-01", "2013-04-01"]
    folder = reproduce("delay", snapshot={"as_of": "2013-05-01"}).workspace
    assert params.load(folder)["snapshot"]["as_of"] == "2013-05-01", "an override has precedence"
    assert folder == home / "workspaces/delay/models/delay"
    assert params.load_section(folder, "train")["hyperparameters"] == {"num_round": 20}
    with pytest.raises(SpecError, match=r"there is no model 'dealy'.*The models are delay, late, status"):
        reproduce("dealy")


def test_a_changed_file_of_a_model_makes_the_code_dirty_and_keeps_its_digest(project: Path) -> None:
    (project / "params.yaml").write_text("{}")
    commit_code(project, "models")
    assert not read_code()[0].endswith("-dirty")
    digest = digest_code(project)
    write_model(project, "late", "2013-03-01", 10)
    assert read_code(model="late")[0].endswith("-dirty")
    assert digest_code(project) == digest


@pytest.mark.parametrize("is_repository", [True, False], ids=["repository", "folder"])
@pytest.mark.parametrize("folder", ["datasets", "ours/sets"])
def test_a_workspace_has_the_datasets_of_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, folder: str, is_repository: bool
) -> None:
    """They are code: a change makes it dirty, and changes its digest."""
    if folder != "datasets":
        monkeypatch.setenv("LEEWAY_DATASETS", folder)
    if not is_repository:
        shutil.rmtree(project / ".git")
    file = Path(folder, "orders", "__init__.py")
    digests = [digest_code(project)]
    for text in ("first", "second"):
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).write_text(text)
        digests.append(digest_code(project))
        with workspaces.open_workspace("one", {}) as workspace:
            assert (workspace.folder / file).read_text() == text
            assert workspace.code.digest == digests[-1]
            assert workspace.code.git_commit.endswith("-dirty" if is_repository else "unknown")
    assert len(set(digests)) == 3
