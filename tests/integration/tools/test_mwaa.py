"""Test the files of `make mwaa`: operators and DAGs load without ML libraries, and builds are byte-identical."""

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
HEAVY += ["ibis", "xgboost", "sklearn", "matplotlib", "scipy", "s3fs", "moto"]
# The heavy libraries are hidden, as in an environment in which they are not installed.
LOAD = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv[1])
import leeway, pipelines
files = [package.__file__ for package in (leeway, pipelines)]
assert all(file.startswith(sys.argv[1]) for file in files), files
for module in pkgutil.walk_packages(leeway.__path__, "leeway."):
    importlib.import_module(module.name)
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[2])
assert bag.import_errors == {{}}, bag.import_errors
from airflow import plugins_manager
print(sorted(bag.dags), sorted(name for name in sys.modules if name in ("train", "operators", "sagemaker", "pandas")))
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the files twice, and return the folder of both builds."""
    if not (ROOT / ".leeway/uv/bin/uv").exists() and not shutil.which("uv"):
        pytest.skip("uv is missing: `make setup` installs it")
    folder = tmp_path_factory.mktemp("dist")
    for name in ("first", "second"):
        result = subprocess.run([sys.executable, str(TOOL), str(folder / name)], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    return folder


def test_second_build_is_byte_identical(dist: Path) -> None:
    names = {path.name for path in (dist / "first").iterdir()}
    assert names == {"plugins.zip", "requirements-mwaa.txt", "pipelines.tar.gz"}
    for name in names:
        assert (dist / "first" / name).read_bytes() == (dist / "second" / name).read_bytes(), name


def test_operators_and_dags_load_without_ml_libraries(dist: Path, tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    with zipfile.ZipFile(dist / "first" / "plugins.zip") as archive:
        archive.extractall(plugins)
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins)}
    env = {name: value for name, value in env.items() if name != "PYTHONPATH"}
    code = LOAD.format(heavy=HEAVY)
    result = subprocess.run(
        [sys.executable, "-c", code, str(plugins), str(ROOT / "dags")],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3_000:]
    kinds = ("monitor", "reset_breaker", "rollback", "score", "train")
    dags = [f"{model}_{kind}" for model in ("flights", "flight_delay", "flight_status") for kind in kinds]
    dags += [f"flights_{kind}" for kind in ("deploy", "ingest", "materialize", "serving_monitor", "tune", "withdraw")]
    others = ["endpoint_costs", "endpoint_sweep", "idle_sweep", "lake_check", "page_documents", "showback"]
    dags = sorted([*dags, *others, "weather_ingest"])
    assert result.stdout.splitlines()[-1] == f"{dags} []"


def test_module_that_needs_pandas_does_not_load(dist: Path, tmp_path: Path) -> None:
    """This is the negative control of the test above."""
    code = LOAD.format(heavy=HEAVY).replace("import leeway, pipelines\n", "import pipelines.features.building\n")
    result = subprocess.run([sys.executable, "-c", code, str(ROOT), ""], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1 and "ModuleNotFoundError: No module named" in result.stderr


def test_plugin_loader_executes_only_one_file(dist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(dist / "first" / "plugins.zip") as archive:
        names = archive.namelist()
        ignored_names = archive.read(".airflowignore").decode().split()
    assert {name.split("/")[0] + "/" for name in names if "/" in name} == set(ignored_names)
    assert [name for name in names if "/" not in name and name.endswith(".py")] == ["leeway_plugin.py"]
    assert not [name for name in names if "__pycache__" in name]


def test_requirements_are_pinned_as_in_the_lock_and_have_no_ml_library(dist: Path) -> None:
    first, *requirements = (dist / "first" / "requirements-mwaa.txt").read_text().splitlines()
    assert first == '--constraint "/usr/local/airflow/plugins/constraints.txt"'
    with zipfile.ZipFile(dist / "first" / "plugins.zip") as archive:
        constraints = archive.read("constraints.txt").decode().splitlines()
    pinned_packages = {line.split(";")[0].strip() for line in constraints}
    assert {re.sub(r"\[.*?\]", "", line) for line in requirements} <= pinned_packages
    assert "apache-airflow-providers-amazon[aiobotocore]" in {line.split("==")[0] for line in requirements}
    assert "aiobotocore" in {line.split("==")[0] for line in pinned_packages}
    assert {line.split("==")[0].replace("-", "_") for line in pinned_packages}.isdisjoint(HEAVY)


def test_project_of_the_steps_is_complete(dist: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO((dist / "first" / "pipelines.tar.gz").read_bytes())) as tar:
        names = set(tar.getnames())
        requirements = tar.extractfile("requirements.txt").read().decode()
    expected = {
        "params.yaml",
        "models/flights/params.yaml",
        "dvc.yaml",
        "commit",
        "pipelines/__main__.py",
        "expectations/flights.json",
    }
    assert expected <= names and "pipelines/costs/price_sources/prices.json" in names
    assert "mlflow==" in requirements and "pyiceberg==" in requirements and "apache-airflow==" not in requirements


def test_commit_of_a_changed_tree_is_marked_as_dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps write the commit into the lineage of each model."""
    spec = importlib.util.spec_from_file_location("mwaa", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.describe_commit() == ""
    (tmp_path / "params.yaml").write_text("a: 1\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "x"], ["tag", "v1"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    assert re.fullmatch("[0-9a-f]{40}", clean := tool.describe_commit())
    (tmp_path / "params.yaml").write_text("a: 2\n")
    assert tool.describe_commit() == f"{clean}-dirty"
