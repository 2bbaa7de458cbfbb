"""Test an Airflow without the ML libraries: its steps run in the environment of `python=` or LEEWAY_PYTHON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
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
names = [module.name for module in pkgutil.walk_packages(leeway.__path__, "leeway.")]
for name in names:
    importlib.import_module(name)
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(json.dumps(len(names)))
"""
STEPS = """
import json, sys
from leeway.operators.ingest import IngestOperator
from leeway.operators.validate import ValidateOperator
results = []
for operator, python in zip((IngestOperator, ValidateOperator), sys.argv[1:], strict=True):
    task = operator(task_id="step", dataset="flights", partition="2013-01-05", python=python)
    task.actor_variables = {}
    results.append(task.run_step(task.step, task.build_spec()))
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that hides the modules which the Airflow image does not have."""
    return slim.write_site(tmp_path_factory.mktemp("slim") / "site", "airflow")


@pytest.fixture(scope="module")
def absent_modules() -> Any:
    """Return the function that lists the modules that an image does not have; the first call reads all packages."""
    return cache(slim.list_absent_modules)


@pytest.fixture
def run_in_airflow(site: Path, tmp_path: Path) -> Any:
    """Return the function that runs code in a Python with the modules of the Airflow image."""

    def run(code: str, *arguments: str, **env: str) -> Any:
        variables = {
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "LEEWAY_HOME": str(tmp_path / "home"),
            "LEEWAY_PROJECT": str(ROOT),
            "PYTHONPATH": os.pathsep.join(map(str, [site, ROOT, ROOT / "plugins"])),
        }
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **variables, **env}, capture_output=True, text=True
        )

    return run


@pytest.mark.parametrize("module", HEAVY)
def test_airflow_image_has_no_ml_library(module, absent_modules):
    assert module in absent_modules("airflow")


def test_pipelines_image_has_no_airflow(absent_modules):
    assert "airflow" in absent_modules("pipelines")
    assert not {"boto3", "xgboost"} & set(absent_modules("pipelines"))


def test_airflow_image_has_the_libraries_that_airflow_needs(absent_modules):
    modules = {"airflow", "boto3", "aiobotocore", "celery", "redis", "psycopg", "statsd"}
    assert not modules & set(absent_modules("airflow"))


def test_all_operators_and_dags_import_without_the_ml_libraries(run_in_airflow):
    process = run_in_airflow(IMPORT_ALL, str(ROOT / "dags"))
    assert process.returncode == 0, process.stderr[-2_000:]
    assert int(process.stdout.splitlines()[-1]) > 60


@pytest.mark.soak
def test_import_of_an_ml_library_fails(run_in_airflow):
    process = run_in_airflow("import airflow.sdk, pandas")
    assert process.returncode == 1
    assert "No module named 'pandas'" in process.stderr


def test_operators_run_their_steps_in_the_other_environment(run_in_airflow, tmp_path):
    python = str(slim.write_interpreter(tmp_path, "pipelines"))
    process = run_in_airflow(STEPS, python, "", LEEWAY_PYTHON=python)
    assert process.returncode == 0, process.stderr[-2_000:]
    ingest_result, validate_result = json.loads(process.stdout.splitlines()[-1])
    assert ingest_result["rows"] > 700
    assert validate_result["partition"] == "2013-01-05" and validate_result["changed"] is True


def test_step_names_the_missing_package_without_the_other_environment(run_in_airflow):
    process = run_in_airflow(STEPS, "", "")
    assert process.returncode == 1
    message = r"AirflowFailException: ingest: the package (pyarrow|pyiceberg) is not installed here\."
    assert re.search(message, process.stderr), process.stderr
    assert "LEEWAY_PYTHON" in process.stderr
