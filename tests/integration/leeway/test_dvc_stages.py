"""`dvc_stages`: the edges of `dvc dag` as tasks, and a real run of them."""

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
from leeway.dvc_stages import dvc_stages

from pipelines.errors import SpecError
from tests.tools import forking

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
name, *before = sys.argv[1:]
told = " ".join(pathlib.Path("data", one).read_text() for one in before)
pathlib.Path("data").mkdir(exist_ok=True)
pathlib.Path("data", name).write_text(f"{name}({told})")
"""
DAG_FILE = """
import datetime as dt
from airflow.sdk import DAG
from leeway.dvc_stages import dvc_stages

with DAG("staged", start_date=dt.datetime(2013, 1, 1), schedule=None):
    dvc_stages("dvc.yaml", refresh=["pin"], overrides={"snapshot": {"as_of": "2013-02-01"}})
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
    found = session.query(XComModel).filter_by(run_id=run.run_id, key="return_value")
    xcoms = {one.task_id: XComModel.deserialize_value(one) for one in found}
print("\\n" + json.dumps({"state": run.state, "states": states, "xcoms": xcoms}))
"""


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Path:
    """LEEWAY_PROJECT, with stages that fan out."""
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


def edges(**fields: Any) -> set[tuple[str, str]]:
    with DAG("staged") as dag:
        dvc_stages("dvc.yaml", **fields)
    return {(task.task_id, after) for task in dag.tasks for after in task.downstream_task_ids}


@pytest.mark.parametrize("which", ["fanned out", "flights"])
def test_edges_are_those_of_dvc_dag(which: str, staged: Path) -> None:
    if which == "flights":
        for name in ("dvc.yaml", "params.yaml"):
            (staged / name).write_text((ROOT / name).read_text())
    for command in (["init", "--no-scm", "-q"], ["dag", "--dot"]):
        told = forking.run(
            [sys.executable, "-m", "dvc", *command], cwd=staged, capture_output=True, text=True, check=True
        ).stdout
    found = set(re.findall(r'^"([^"]+)" -> "([^"]+)";$', told, re.MULTILINE))
    assert len(found) >= 4
    assert edges() == {tuple(f"dvc.{name.replace('@', '-')}" for name in edge) for edge in found}


def test_selected_stages_keep_their_order_past_those_left_out(staged: Path) -> None:
    assert edges(select=["pin", "join"]) == {("dvc.pin", "dvc.join")}
    assert edges(select=["pin", "part@a"], group_id="few") == {("few.pin", "few.part-a")}
    for bad in ({"select": ["pint"]}, {"select": ["join"], "refresh": ["pin"]}):
        with pytest.raises(SpecError, match="pin"):
            edges(**bad)


def test_parsing_loads_no_dvc(staged: Path) -> None:
    code = "import sys; from leeway.dvc_stages import dvc_stages; from airflow.sdk import DAG\n"
    code += "with DAG('staged'): dvc_stages()\nprint([n for n in ('dvc', 'pandas', 'pyarrow') if n in sys.modules])"
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}", "LEEWAY_PROJECT": str(staged)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_real_run_goes_through_all_of_them_in_one_workspace(
    staged: Path, tmp_path: Path, put_airflow_database: Callable[[Path], None]
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
        "LEEWAY_PROJECT": str(staged),
        "LEEWAY_HOME": str(tmp_path / "home"),
    }
    put_airflow_database(tmp_path / "airflow")
    command = [sys.executable, "-c", RUN, str(dags)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4_000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert set(told["states"].values()) == {"success"}, told
    (workspace,) = {one["workspace"] for one in told["xcoms"].values()}
    assert (Path(workspace) / "data/join").read_text() == "join(a(pin()) b(pin()))"
    assert {name: one["ran"] for name, one in told["xcoms"].items()} == {
        "dvc.pin": ["pin"], "dvc.part-a": ["part@a"], "dvc.part-b": ["part@b"], "dvc.join": ["join"],
    }  # fmt: skip
    assert set(told["xcoms"]["dvc.join"]["stages"]) == {"pin", "part@a", "part@b", "join"}
