"""Test `create_dvc_tasks`: its tasks have the edges of `dvc dag`, and a real run of them succeeds."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from leeway.dvc_stages import create_dvc_tasks

from pipelines.errors import SpecError
from tests.tools import forking
from tests.tools.parameters import copy_models

ROOT = Path(__file__).parents[3]
STAGES = """
stages:
  pin:
    cmd: python pipelines/work.py pin
    deps: [pipelines/work.py]
    params: [snapshot.as_of]
    outs: [data/pin]
  part:
    foreach: [a, b]
    do:
      cmd: python pipelines/work.py ${item} pin
      deps: [data/pin]
      outs: ["data/${item}"]
  join:
    cmd: python pipelines/work.py join a b
    deps: [data/a, data/b]
    outs: [data/join]
"""
WORK = """
import pathlib, sys
name, *inputs = sys.argv[1:]
text = " ".join(pathlib.Path("data", file).read_text() for file in inputs)
pathlib.Path("data").mkdir(exist_ok=True)
pathlib.Path("data", name).write_text(f"{name}({text})")
"""
DAG_FILE = """
import datetime as dt
from airflow.sdk import DAG
from leeway.dvc_stages import create_dvc_tasks

with DAG("staged", start_date=dt.datetime(2013, 1, 1), schedule=None):
    create_dvc_tasks("dvc.yaml", refresh=["pin"], overrides={"snapshot": {"as_of": "2013-02-01"}})
"""
RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

bag = DagBag(sys.argv[1])
assert bag.import_errors == {}, bag.import_errors
run = bag.dags["staged"].test()
with create_session() as session:
    states = {ti.task_id: str(ti.state) for ti in session.query(TaskInstance).filter_by(run_id=run.run_id)}
    rows = session.query(XComModel).filter_by(run_id=run.run_id, key="return_value")
    xcoms = {row.task_id: XComModel.deserialize_value(row) for row in rows}
print("\\n" + json.dumps({"state": run.state, "states": states, "xcoms": xcoms}))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Path:
    """Set LEEWAY_PROJECT to a project whose stages fan out; return its folder."""
    project = tmp_path / "project"
    files = {
        "pipelines/work.py": WORK,
        "expectations/none.json": "{}",
        "dvc.yaml": STAGES,
        "params.yaml": 'snapshot:\n  as_of: "2013-01-01"\n',
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    monkeypatch.setenv("LEEWAY_PROJECT", str(project))
    fresh_settings()
    return project


def list_edges(**fields: Any) -> set[tuple[str, str]]:
    """Return the pairs of tasks that follow one another in a DAG of `create_dvc_tasks`."""
    with DAG("staged") as dag:
        create_dvc_tasks("dvc.yaml", **fields)
    return {(task.task_id, task_id) for task in dag.tasks for task_id in task.downstream_task_ids}


@pytest.mark.parametrize("stages", ["fan out", "flights"])
def test_tasks_have_the_edges_of_dvc_dag(stages: str, project: Path) -> None:
    if stages == "flights":
        for name in ("dvc.yaml", "params.yaml"):
            (project / name).write_text((ROOT / name).read_text())
        copy_models(ROOT, project)
    for command in (["init", "--no-scm", "-q"], ["dag", "--dot"]):
        output = forking.run(
            [sys.executable, "-m", "dvc", *command], cwd=project, capture_output=True, text=True, check=True
        ).stdout
    edges = set(re.findall(r'^"([^"]+)" -> "([^"]+)";$', output, re.MULTILINE))
    assert len(edges) >= 4
    assert list_edges() == {tuple(f"dvc.{name.replace('@', '-')}" for name in edge) for edge in edges}


def test_selected_stages_keep_their_order_when_others_are_left_out(project: Path) -> None:
    assert list_edges(select=["pin", "join"]) == {("dvc.pin", "dvc.join")}
    assert list_edges(select=["pin", "part@a"], group_id="few") == {("few.pin", "few.part-a")}
    for wrong_fields in ({"select": ["pint"]}, {"select": ["join"], "refresh": ["pin"]}):
        with pytest.raises(SpecError, match="pin"):
            list_edges(**wrong_fields)


def test_parsing_the_dag_does_not_import_dvc(project: Path) -> None:
    code = "import sys; from leeway.dvc_stages import create_dvc_tasks; from airflow.sdk import DAG\n"
    code += "with DAG('staged'): create_dvc_tasks()\n"
    code += "print([name for name in ('dvc', 'pandas', 'pyarrow') if name in sys.modules])"
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}", "LEEWAY_PROJECT": str(project)}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert process.stdout.splitlines()[-1] == "[]"


def test_real_run_computes_all_stages_in_one_workspace(
    project: Path, tmp_path: Path, put_airflow_database: Callable[[Path], None]
) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "staged.py").write_text(DAG_FILE)
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "LEEWAY_PYTHON": forking.ensure_stand_in(),
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(tmp_path / "home"),
    }
    put_airflow_database(tmp_path / "airflow")
    command = [sys.executable, "-c", RUN, str(dags)]
    process = forking.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert process.returncode == 0, (process.stdout + process.stderr)[-4_000:]
    run = json.loads(process.stdout.splitlines()[-1])
    assert set(run["states"].values()) == {"success"}, run
    (workspace,) = {result["workspace"] for result in run["xcoms"].values()}
    assert (Path(workspace) / "data/join").read_text() == "join(a(pin()) b(pin()))"
    assert {name: result["ran"] for name, result in run["xcoms"].items()} == {
        "dvc.pin": ["pin"], "dvc.part-a": ["part@a"], "dvc.part-b": ["part@b"], "dvc.join": ["join"],
    }  # fmt: skip
    assert set(run["xcoms"]["dvc.join"]["stages"]) == {"pin", "part@a", "part@b", "join"}
