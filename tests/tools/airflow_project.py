"""Write the project for the tests that need a whole Airflow: one repository with the DAGs of all these tests.

`local/` is a DAG bundle without versions. `dags/` is a bundle whose versions are the repository's commits.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "tests/integration/leeway/stand_ins"
DAG_IDS = ("spot_deferred", "spot_waiting", "spot_queued", "spark_deferred", "spark_waiting", "versions", "champion")

SPOT_DAGS = """
import datetime as dt, os
from airflow.sdk import DAG
from leeway.operators.spot_training import SpotTrainingOperator

QUEUE = {"job_queue": "{{ params.queue }}"}
for name, more in (("deferred", {}), ("waiting", {"deferrable": False}), ("queued", QUEUE)):
    params = {"mode": "wait", "release_file": "", "queue": ""}
    with DAG(f"spot_{name}", schedule=None, params=params) as dag:
        SpotTrainingOperator(
            task_id="train", entry_point="train.py", bundle="bundle.txt", image_uri="image",
            channels={"train": os.environ["LEEWAY_PROJECT"] + "/features"},
            **more, check_interval_s=1, max_run_s=600, max_wait_s=900,
            hyperparameters={"mode": "{{ params.mode }}", "release_file": "{{ params.release_file }}"},
            retries=20, retry_delay=dt.timedelta(seconds=0.5),
        )
    globals()[dag.dag_id] = dag
"""
SPARK_DAGS = """
import datetime as dt, os
from airflow.sdk import DAG
from leeway.operators.spark_preprocess import SparkPreprocessOperator
from leeway.operators.spot_training import SpotTrainingOperator

RETRIED = {"retries": 20, "retry_delay": dt.timedelta(seconds=0.5)}

def preprocess(deferrable):
    return SparkPreprocessOperator(
        task_id="preprocess", image_uri="image", instance_type="ml.m5.large", max_run_s=600, check_interval_s=1,
        environment={"MODE": "{{ params.mode }}", "RELEASE_FILE": "{{ params.release_file }}"}, deferrable=deferrable,
        python=os.environ["LEEWAY_PROJECT"] + "/python", **RETRIED,
    )

def train():
    return SpotTrainingOperator(
        task_id="train", entry_point="train_on_channels.py", bundle="bundle.txt", image_uri="image",
        check_interval_s=1, max_run_s=600, max_wait_s=900, **RETRIED,
        %s
    )

for name, deferrable in (("deferred", True), ("waiting", False)):
    with DAG(f"spark_{name}", schedule=None, params={"mode": "wait", "release_file": ""}) as dag:
        first = preprocess(deferrable)
        if deferrable:
            first >> train()
    globals()[dag.dag_id] = dag
"""
CHAMPION_DAG = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from leeway.triggers.champion import build_champion_asset

with DAG("champion", schedule=[build_champion_asset("watched", check_interval_s=2)]) as dag:
    EmptyOperator(task_id="deploy")
"""
VERSIONS_DAG = """
import datetime as dt
from airflow.sdk import DAG
from leeway.operators.dvc_repro import DvcReproOperator

with DAG("versions", schedule=None) as dag:
    for task_id, more in (("versioned", {}), ("head", dict(%s))):
        DvcReproOperator(
            task_id=task_id, targets=["word"], workspace="{{ run_id }}." + task_id,
            retries=20, retry_delay=dt.timedelta(seconds=0.5), **more,
        )
"""
CHANNELS_SCRIPT = """
import os, pathlib
rows = (pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]) / "data.parquet").read_text()
print("trained on", rows, flush=True)
(pathlib.Path(os.environ["SM_MODEL_DIR"]) / "model").write_text(rows)
"""
DVC_YAML = """
stages:
  word:
    cmd: mkdir -p data && cp pipelines/word.txt data/word.txt
    deps: [pipelines/word.txt]
    outs: [data/word.txt]
"""


def read_example(page: str, pattern: str) -> str:
    """Return what the first group of a pattern matches in a page of the documentation."""
    match = re.search(pattern, (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert match, f"{page} has no text that matches {pattern}"
    return match[1]


def write_project(project: Path, training_script: str) -> None:
    """Write the project, with a first commit.

    Args:
        project: folder of the repository; it is created.
        training_script: text of train.py. The script's hyperparameter `mode` says what it does.
    """
    channels = read_example("how-to/processing-job.md", r"SpotTrainingOperator\(.*?(channels=.*?)\n\)")
    commit_of_project = read_example("explanation/versioned-preprocessing.md", r"DvcReproOperator\((commit=[^\n]+?)\)`")
    files = {
        "local/spot.py": SPOT_DAGS,
        "local/spark.py": SPARK_DAGS % channels,
        "local/champion.py": CHAMPION_DAG,
        "dags/versions.py": VERSIONS_DAG % commit_of_project,
        "train.py": training_script,
        "train_on_channels.py": CHANNELS_SCRIPT,
        "lib/__init__.py": "",
        "lib/extra.py": "WORD = 'trained on'\n",
        "bundle.txt": "lib/__init__.py\nlib/extra.py\n",
        "features/rows": "rows",
        "pipelines/container/processing.py": (STAND_INS / "processing.py").read_text(),
        "pipelines/word.txt": "one",
        "data/snapshot.json": "window",
        "python": f"#!{sys.executable}\n" + (STAND_INS / "pack.py").read_text(),
        "dvc.yaml": DVC_YAML,
        "params.yaml": "snapshot: {}\n",
        "expectations/none.json": "{}",
        ".gitignore": "/data/\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "python").chmod(0o755)
    link_code(project)
    run_git(project, "init", "-q")
    commit_word(project, "one")


def link_code(project: Path) -> None:
    """Link Leeway's code into the project, which is then a checkout, except the files that the project has already."""
    for folder in (Path("pipelines"), Path("pipelines/container")):
        for path in (ROOT / folder).iterdir():
            link = project / folder / path.name
            if path.name != "__pycache__" and not link.exists():
                link.symlink_to(path)


def format_bundle_config(project: Path) -> str:
    """Return the value of Airflow's dag_bundle_config_list, in JSON."""
    local = {"path": str(project / "local"), "refresh_interval": 5}
    repository = {"repository": str(project), "refresh_interval": 1}
    bundles = (
        ("local", "airflow.dag_processing.bundles.local.LocalDagBundle", local),
        ("project", "repository_bundle.RepositoryBundle", repository),
    )
    return json.dumps([{"name": name, "classpath": path, "kwargs": kwargs} for name, path, kwargs in bundles])


def run_git(project: Path, *arguments: str) -> str:
    """Run a git command, and return its stdout."""
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    result = subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True, text=True)
    return result.stdout.strip()


def commit_word(project: Path, word: str) -> str:
    """Commit a new word for the project's stage to copy, and return the commit's digest."""
    (project / "pipelines/word.txt").write_text(word)
    run_git(project, "add", "-A")
    run_git(project, "commit", "-qm", word)
    return run_git(project, "rev-parse", "HEAD")
