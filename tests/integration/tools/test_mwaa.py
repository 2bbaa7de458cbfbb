"""What `make mwaa` makes: the operators and the DAGs load from it where no ML library is, and twice it is the same."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools" / "mwaa.py"
HEAVY = ["pandas", "numpy", "mlflow", "great_expectations", "dvc", "sagemaker", "pyiceberg", "pyarrow", "duckdb"]
HEAVY += ["ibis", "xgboost", "sklearn", "matplotlib", "scipy", "s3fs", "datasketches", "moto"]
# As an environment has it in which they were never installed.
LOAD = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv[1])
import leeway, pipelines
assert all(one.__file__.startswith(sys.argv[1]) for one in (leeway, pipelines)), (leeway.__file__, pipelines.__file__)
for one in pkgutil.walk_packages(leeway.__path__, "leeway."):
    importlib.import_module(one.name)
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[2])
assert bag.import_errors == {{}}, bag.import_errors
from airflow import plugins_manager
print(sorted(bag.dags), sorted(one for one in sys.modules if one in ("train", "operators", "sagemaker", "pandas")))
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".leeway/uv/bin/uv").exists() and not shutil.which("uv"):
        pytest.skip("no uv: `make setup` installs it")
    folder = tmp_path_factory.mktemp("dist")
    for name in ("one", "two"):
        done = subprocess.run([sys.executable, str(TOOL), str(folder / name)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folder


def test_twice_it_is_the_same_bytes(dist: Path) -> None:
    names = {one.name for one in (dist / "one").iterdir()}
    assert names == {"plugins.zip", "requirements-mwaa.txt", "pipelines.tar.gz"}
    for name in names:
        assert (dist / "one" / name).read_bytes() == (dist / "two" / name).read_bytes(), name


def test_operators_and_dags_load_from_it_without_any_ml_library(dist: Path, tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    with zipfile.ZipFile(dist / "one" / "plugins.zip") as archive:
        archive.extractall(plugins)
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins)}
    env = {name: value for name, value in env.items() if name != "PYTHONPATH"}
    code = LOAD.format(heavy=HEAVY)
    told = subprocess.run(
        [sys.executable, "-c", code, str(plugins), str(ROOT / "dags")],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr[-3_000:]
    dags = sorted(path.stem for path in (ROOT / "dags").glob("*.py"))
    assert told.stdout.splitlines()[-1] == f"{dags} []"


def test_the_blocker_blocks(dist: Path, tmp_path: Path) -> None:
    """The control: what needs pandas does not load there."""
    code = LOAD.format(heavy=HEAVY).replace("import leeway, pipelines\n", "import pipelines.features.building\n")
    told = subprocess.run([sys.executable, "-c", code, str(ROOT), ""], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 1 and "ModuleNotFoundError: No module named" in told.stderr


def test_the_plugin_loader_executes_one_file_only(dist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(dist / "one" / "plugins.zip") as archive:
        names = archive.namelist()
        ignored = archive.read(".airflowignore").decode().split()
    assert {name.split("/")[0] + "/" for name in names if "/" in name} == set(ignored)
    assert [name for name in names if "/" not in name and name.endswith(".py")] == ["leeway_plugin.py"]
    assert not [name for name in names if "__pycache__" in name]


def test_each_requirement_is_of_the_lock_and_none_is_an_ml_library(dist: Path) -> None:
    first, *wanted = (dist / "one" / "requirements-mwaa.txt").read_text().splitlines()
    assert first == '--constraint "/usr/local/airflow/plugins/constraints.txt"'
    with zipfile.ZipFile(dist / "one" / "plugins.zip") as archive:
        constraints = archive.read("constraints.txt").decode().splitlines()
    known = {line.split(";")[0].strip() for line in constraints}
    assert {re.sub(r"\[.*?\]", "", line) for line in wanted} <= known
    assert "apache-airflow-providers-amazon[aiobotocore]" in {line.split("==")[0] for line in wanted}
    assert "aiobotocore" in {line.split("==")[0] for line in known}
    assert {one.split("==")[0].replace("-", "_") for one in known}.isdisjoint(HEAVY)


def test_the_project_of_the_steps_is_whole(dist: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO((dist / "one" / "pipelines.tar.gz").read_bytes())) as tar:
        names = set(tar.getnames())
        required = tar.extractfile("requirements.txt").read().decode()  # type: ignore[union-attr]
    wanted = {"params.yaml", "dvc.yaml", "commit", "pipelines/__main__.py", "expectations/flights.json"}
    assert wanted <= names and "pipelines/prices.json" in names
    assert "mlflow==" in required and "pyiceberg==" in required and "apache-airflow==" not in required


def test_a_changed_tree_is_not_told_as_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps write it into the lineage of each model, as they do elsewhere."""
    spec = importlib.util.spec_from_file_location("mwaa", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.commit() == ""
    (tmp_path / "params.yaml").write_text("a: 1\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for told in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "x"], ["tag", "v1"]):
        subprocess.run(["git", *told], cwd=tmp_path, check=True)
    assert re.fullmatch("[0-9a-f]{40}", clean := tool.commit())
    (tmp_path / "params.yaml").write_text("a: 2\n")
    assert tool.commit() == f"{clean}-dirty"
