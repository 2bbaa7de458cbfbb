"""The comparison that a pull request gets, as the workflow runs it: of two commits of a small copy of the project."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.tools import forking

ROOT = Path(__file__).parents[3]
FILES = ["pipelines", "expectations", "tools", "dvc.yaml", "params.yaml", ".dvc", ".dvcignore", ".gitignore"]
SAMPLE = 'SAMPLE = {"snapshot": {"train_days": 3, "holdout_days": 1, "min_train_days": 2}, "preprocess": {}}'


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The project in a repository of its own with a small sample; a commit that changes the model, and one nothing."""
    folder = tmp_path_factory.mktemp("repository")
    made = SimpleNamespace(folder=folder, home=folder.parent / "home", summary=folder.parent / "summary")
    tracked = git(ROOT, "ls-files", "-z", *FILES).split("\0")
    for name in filter(None, tracked):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    tool = folder / "tools" / "metrics_diff.py"
    tool.write_text(re.sub(r"(?m)^SAMPLE = .+$", SAMPLE, tool.read_text()))
    git(folder, "init", "--quiet")
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params["preprocess"]["validation_days"] = 1
    for name, depth in (("base", 2), ("same", 2), ("deeper", 4)):
        params["train"]["hyperparameters"] = {"num_round": 15, "max_depth": depth, "seed": 13}
        (folder / "params.yaml").write_text(yaml.safe_dump(params))
        git(folder, "add", "--all")
        git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", name)
        setattr(made, name, git(folder, "rev-parse", "HEAD").strip())
    for name, file, change in (
        ("without_the_stage", "dvc.yaml", {"evaluate": "evaluated"}),
        ("that_fails", "params.yaml", {"train_days": "unheard_of"}),
    ):
        git(folder, "checkout", "--quiet", made.base)
        for old, new in change.items():
            (folder / file).write_text((folder / file).read_text().replace(f"{old}:", f"{new}:"))
        git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--all", "-m", name)
        setattr(made, name, git(folder, "rev-parse", "HEAD").strip())
    return made


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def step(made: SimpleNamespace, base: str, head: str) -> subprocess.CompletedProcess[str]:
    """The step `compare` of metrics.yaml, with this Python in the place of .venv's."""
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "metrics.yaml").read_text())
    (script,) = [one["run"] for one in flow["jobs"]["compare"]["steps"] if one.get("name") == "compare"]
    git(made.folder, "checkout", "--quiet", head)
    path = f"{Path(forking.stand_in()).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "BASE": base, "GITHUB_STEP_SUMMARY": str(made.summary), "LEEWAY_HOME": str(made.home)}
    env["PATH"] = path
    script = script.replace(".venv/bin/python", forking.stand_in())
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=made.folder, env=env, capture_output=True, text=True
    )


def test_a_change_of_the_model_shows_as_a_table(repository: SimpleNamespace) -> None:
    done = step(repository, repository.base, repository.deeper)
    assert done.returncode == 0, done.stderr
    told = (repository.folder / "metrics.md").read_text()
    assert re.search(r"^\| Metric +\|", told, re.MULTILINE) and re.search(r"^\| auc ", told, re.MULTILINE), told
    assert repository.summary.read_text() == told
    assert git(repository.folder, "worktree", "list").count("\n") == 1, "no worktree is left"


def test_where_nothing_changes_no_metric_differs(repository: SimpleNamespace) -> None:
    done = step(repository, repository.base, repository.same)
    assert done.returncode == 0, done.stderr
    assert (repository.folder / "metrics.md").read_text().endswith("No metric differs.\n")


def test_a_commit_that_is_none_is_refused_in_a_line(repository: SimpleNamespace) -> None:
    done = step(repository, "nothing", repository.same)
    assert done.returncode == 2
    assert done.stderr.startswith("error: git worktree add") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "said"), [("without_the_stage", "ERROR: Stage 'evaluate' not found"), ("that_fails", "unheard_of")]
)
def test_why_a_commit_does_not_run_is_said_in_a_line(repository: SimpleNamespace, name: str, said: str) -> None:
    done = step(repository, getattr(repository, name), repository.same)
    assert done.returncode == 2
    assert "dvc repro ended with" in done.stderr and said in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
