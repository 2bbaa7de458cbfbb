"""DvcReproOperator in a real Airflow whose DAGs have versions: the code of the run's version runs, as docs say."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
DAG = """
import datetime as dt
from airflow.sdk import DAG
from leeway.operators.dvc_repro import DvcReproOperator

with DAG("versions", schedule=None) as dag:
    for task_id, more in (("versioned", dict(%s)), ("plain", {})):
        DvcReproOperator(
            task_id=task_id, targets=["word"], workspace="{{ run_id }}." + task_id,
            retries=20, retry_delay=dt.timedelta(seconds=0.5), **more,
        )
"""
STAGES = """
stages:
  word:
    cmd: mkdir -p data && cp pipelines/word.txt data/word.txt
    deps: [pipelines/word.txt]
    outs: [data/word.txt]
"""


def git(project: Path, *arguments: str) -> str:
    own = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *own, *arguments], cwd=project, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(project: Path, word: str) -> str:
    """The project's stage makes the word from here on; gives the commit."""
    (project / "pipelines/word.txt").write_text(word)
    git(project, "add", "-A")
    git(project, "commit", "-qm", word)
    return git(project, "rev-parse", "HEAD")


def shown() -> str:
    """What docs/explanation/versioned-preprocessing.md gives the operator for a bundle with versions."""
    page = (ROOT / "docs/explanation/versioned-preprocessing.md").read_text()
    found = re.search(r"DvcReproOperator\((commit=.+?)\)`", page)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def project(make_project: Callable[..., Path]) -> Path:
    files = {
        "dags/dags.py": DAG % shown(),
        "dvc.yaml": STAGES,
        "params.yaml": "snapshot: {}\n",
        "expectations/none.json": "{}",
        "pipelines/word.txt": "one",
        ".gitignore": "/data/\n",
    }
    made = make_project(files)
    git(made, "init", "-q")
    commit(made, "one")
    return made


@pytest.fixture(scope="module")
def airflow(start_airflow: Callable[..., Any], project: Path) -> Iterator[Any]:
    given = {"repository": str(project), "refresh_interval": 1}
    listed = [{"name": "project", "classpath": "repository_bundle.RepositoryBundle", "kwargs": given}]
    own = {
        "DAG_BUNDLE_CONFIG_LIST": json.dumps(listed),
        "DAG_BUNDLE_STORAGE_PATH": str(project.parent / "bundles"),
        "BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    }
    env = {f"AIRFLOW__DAG_PROCESSOR__{name}": value for name, value in own.items()}
    with start_airflow(project, ["versions"], **env) as made:
        yield made


def test_a_run_that_is_cleared_has_the_code_of_its_version(airflow, begun, project, until):
    one = git(project, "rev-parse", "HEAD")
    run = begun("versions", "versioned", works=False)
    tasks = [run, run.of("plain")]
    until(lambda: [task.state() for task in tasks] == ["success"] * 2, 180)
    assert [task.result()["git_commit"] for task in tasks] == [one, one]

    two = commit(project, "two")
    until(lambda: airflow.call("GET", "/dags/versions")["bundle_version"] == two, 120)
    for task in tasks:
        task.clear()
    until(lambda: [task.state() for task in tasks] == ["success"] * 2, 180)
    versioned, plain = (task.result() for task in tasks)
    assert versioned["git_commit"] == one
    assert (Path(versioned["workspace"]) / "data/word.txt").read_text() == "one"
    assert plain["git_commit"] == two, "the negative control: else it is the project's HEAD"
    assert (Path(plain["workspace"]) / "data/word.txt").read_text() == "two"
