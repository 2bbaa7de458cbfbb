"""Test the comparison of metrics for a pull request: the step of the workflow, on commits of a small project."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.tools import forking
from tests.tools.parameters import keep_one_model

ROOT = Path(__file__).parents[3]
FILES = ["pipelines", "expectations", "tools", "dvc.yaml", "params.yaml", "models", ".dvc", ".dvcignore", ".gitignore"]
SAMPLE = 'SAMPLE = {"snapshot": {"train_days": 3, "holdout_days": 1, "min_train_days": 2}, "preprocess": {}}'


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Return a repository of the project with a small sample; its commits change the model, nothing, or fail."""
    folder = tmp_path_factory.mktemp("repository")
    commits = SimpleNamespace(folder=folder, home=folder.parent / "home", summary=folder.parent / "summary")
    tracked_names = run_git(ROOT, "ls-files", "-z", *FILES).split("\0")
    for name in filter(None, tracked_names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    tool = folder / "tools" / "metrics_diff.py"
    tool.write_text(re.sub(r"(?m)^SAMPLE = .+$", SAMPLE, tool.read_text()))
    keep_one_model(folder)
    run_git(folder, "init", "--quiet")
    params_file = folder / "models" / "flights" / "params.yaml"
    params = yaml.safe_load(params_file.read_text())
    params["preprocess"]["validation_days"] = 1
    for name, depth in (("base", 2), ("same", 2), ("deeper", 4)):
        params["train"]["hyperparameters"] = {"num_round": 15, "max_depth": depth, "seed": 13}
        params_file.write_text(yaml.safe_dump(params))
        run_git(folder, "add", "--all")
        run_git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", name)
        setattr(commits, name, run_git(folder, "rev-parse", "HEAD").strip())
    for name, file, change in (
        ("without_stage", "dvc.yaml", {"evaluate": "evaluated"}),
        ("failing", "models/flights/params.yaml", {"train_days": "unknown_field"}),
    ):
        run_git(folder, "checkout", "--quiet", commits.base)
        for old_text, new_text in change.items():
            (folder / file).write_text((folder / file).read_text().replace(f"{old_text}:", f"{new_text}:"))
        run_git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--all", "-m", name)
        setattr(commits, name, run_git(folder, "rev-parse", "HEAD").strip())
    return commits


def run_git(folder: Path, *arguments: str) -> str:
    """Run a git command in a folder, and return its stdout."""
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def run_step(repository: SimpleNamespace, base: str, head: str) -> subprocess.CompletedProcess[str]:
    """Run the step `compare` of metrics.yaml, with this interpreter."""
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "metrics.yaml").read_text())
    (script,) = [step["run"] for step in flow["jobs"]["compare"]["steps"] if step.get("name") == "compare"]
    run_git(repository.folder, "checkout", "--quiet", head)
    env = {**os.environ, "BASE": base, "LEEWAY_HOME": str(repository.home)}
    env["GITHUB_STEP_SUMMARY"] = str(repository.summary)
    env["PATH"] = f"{Path(forking.ensure_stand_in()).parent}{os.pathsep}{os.environ['PATH']}"
    script = script.replace(".venv/bin/python", forking.ensure_stand_in())
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=repository.folder, env=env, capture_output=True, text=True
    )


@pytest.mark.soak
def test_changed_model_gives_a_table_of_metrics(repository: SimpleNamespace) -> None:
    result = run_step(repository, repository.base, repository.deeper)
    assert result.returncode == 0, result.stderr
    markdown = (repository.folder / "metrics.md").read_text()
    assert re.search(r"^\| Path +\| Metric +\|", markdown, re.MULTILINE) and re.search(
        r"metrics.json +\| auc ", markdown
    ), markdown
    assert repository.summary.read_text() == markdown
    assert run_git(repository.folder, "worktree", "list").count("\n") == 1, "no worktree is left"


@pytest.mark.soak
def test_same_model_gives_a_line_that_no_metric_differs(repository: SimpleNamespace) -> None:
    result = run_step(repository, repository.base, repository.same)
    assert result.returncode == 0, result.stderr
    assert (repository.folder / "metrics.md").read_text().endswith("No metric differs.\n")


def test_missing_commit_is_reported_in_one_line(repository: SimpleNamespace) -> None:
    result = run_step(repository, "nothing", repository.same)
    assert result.returncode == 2
    assert result.stderr.startswith("error: git worktree add") and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("without_stage", "ERROR: Stage 'evaluate' not found"),
        pytest.param("failing", "unknown_field", marks=pytest.mark.soak),
    ],
)
def test_failure_of_a_commit_is_reported_in_one_line(repository: SimpleNamespace, name: str, reason: str) -> None:
    result = run_step(repository, getattr(repository, name), repository.same)
    assert result.returncode == 2
    assert "dvc repro ended with" in result.stderr and reason in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1
