"""An Airflow that has none of the ML libraries drives the environment that has them, by `python=` or LEEWAY_PYTHON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools import slim

ROOT = Path(__file__).parents[3]
HEAVY = [
    "dvc",
    "duckdb",
    "great_expectations",
    "ibis",
    "mlflow",
    "pandas",
    "pyarrow",
    "pyiceberg",
    "sagemaker",
    "xgboost",
]
IMPORT_ALL = """
import importlib, importlib.util, json, pathlib, pkgutil, sys
import leeway
found = [one.name for one in pkgutil.walk_packages(leeway.__path__, "leeway.")]
for name in found:
    importlib.import_module(name)
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(json.dumps(len(found)))
"""
STEPS = """
import json, sys
from leeway.operators.ingest import IngestOperator
from leeway.operators.validate import ValidateOperator
told = []
for operator, python in zip((IngestOperator, ValidateOperator), sys.argv[1:], strict=True):
    task = operator(task_id="it", dataset="flights", partition="2013-01-05", python=python)
    task.who = {}
    told.append(task.run_step(task.step, task.spec()))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return slim.write_site(tmp_path_factory.mktemp("slim") / "site", "airflow")


@pytest.fixture
def airflow(site: Path, tmp_path: Path) -> Any:
    """Runs code in Airflow's own interpreter, as its image has it."""

    def run(code: str, *arguments: str, **env: str) -> Any:
        own = {
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "LEEWAY_HOME": str(tmp_path / "home"),
            "LEEWAY_PROJECT": str(ROOT),
            "PYTHONPATH": os.pathsep.join(map(str, [site, ROOT, ROOT / "plugins"])),
        }
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, **own, **env}, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("module", HEAVY)
def test_library_is_not_in_the_airflow_image(module):
    assert module in slim.list_absent_modules("airflow")


def test_airflow_is_not_in_the_pipelines_image():
    assert "airflow" in slim.list_absent_modules("pipelines")
    assert not {"boto3", "xgboost"} & set(slim.list_absent_modules("pipelines"))


def test_what_airflow_is_made_of_is_in_its_image():
    modules = {"airflow", "boto3", "aiobotocore", "celery", "redis", "psycopg", "statsd"}
    assert not modules & set(slim.list_absent_modules("airflow"))


def test_all_operators_and_dags_import_without_them(airflow):
    answer = airflow(IMPORT_ALL, str(ROOT / "dags"))
    assert answer.returncode == 0, answer.stderr[-2_000:]
    assert int(answer.stdout.splitlines()[-1]) > 60


def test_module_that_needs_one_is_caught(airflow):
    answer = airflow("import airflow.sdk, pandas")
    assert answer.returncode == 1
    assert "No module named 'pandas'" in answer.stderr


def test_operators_run_their_steps_in_the_other_environment(airflow, tmp_path):
    python = str(slim.write_interpreter(tmp_path, "pipelines"))
    answer = airflow(STEPS, python, "", LEEWAY_PYTHON=python)
    assert answer.returncode == 0, answer.stderr[-2_000:]
    ingested, validated = json.loads(answer.stdout.splitlines()[-1])
    assert ingested["rows"] > 700
    assert validated["partition"] == "2013-01-05" and validated["changed"] is True


def test_without_the_other_environment_a_step_says_what_is_missing(airflow):
    answer = airflow(STEPS, "", "")
    assert answer.returncode == 1
    assert "AirflowFailException: ingest: the package pyarrow is not installed here." in answer.stderr
    assert "LEEWAY_PYTHON" in answer.stderr
