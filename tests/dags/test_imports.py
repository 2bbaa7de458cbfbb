"""Test that parsing dags/ imports no heavy library, and that Airflow's plugin loader executes only one file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    *("pandas", "numpy", "mlflow", "great_expectations", "dvc", "sagemaker", "pyiceberg", "pyarrow", "duckdb", "ibis"),
    *("xgboost", "sklearn", "matplotlib"),
)
PACKAGES = {
    "airflow", "argparse", "croniter", "dateutil", "dotenv", "leeway", "pipelines", "pydantic", "pydantic_settings",
    "pytz",
}  # fmt: skip
"""Packages that parsing dags/ may load beyond those that Airflow's SageMaker operator loads."""
MAX_MODULES = 60
"""Number of modules that parsing dags/ may load beyond the operator's. Leeway's own modules do not count.

`python -m benchmarks parse` measures how long parsing takes.
"""

IMPORT_OPERATOR = """
import json, sys
import airflow.sdk
from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator
before = set(sys.modules)
"""
EXECUTE_DAGS = """
import importlib.util, pathlib
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""
PRINT_NEW_MODULES = f"""
print(json.dumps({{
    "new": sorted(set(sys.modules) - before),
    "heavy": [name for name in {HEAVY!r} if name in sys.modules],
}}))
"""
PRINT_MODULES_OF_DAGS = IMPORT_OPERATOR + EXECUTE_DAGS + PRINT_NEW_MODULES


def run_code(tmp_path: Path, code: str, *arguments: str, **env: str) -> dict[str, Any]:
    """Run code in a new process; return the JSON that it prints last."""
    variables = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"}
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, env={**os.environ, **variables, **env},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2_000:]
    return dict(json.loads(process.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def modules_of_dags(tmp_path_factory):
    """Return the modules that parsing dags/ loads."""
    return run_code(tmp_path_factory.mktemp("dags"), PRINT_MODULES_OF_DAGS, str(ROOT / "dags"))


def test_parsing_dags_imports_no_heavy_library(modules_of_dags):
    assert modules_of_dags["heavy"] == []


def test_heavy_import_in_a_dag_is_detected(tmp_path):
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "heavy.py").write_text("import pandas\n")
    assert {"pandas", "numpy"} <= set(run_code(tmp_path, PRINT_MODULES_OF_DAGS, str(tmp_path / "dags"))["heavy"])


def test_parsing_dags_loads_few_modules_beyond_airflow(modules_of_dags):
    new_modules = modules_of_dags["new"]
    assert {name.partition(".")[0] for name in new_modules} <= PACKAGES
    assert len([name for name in new_modules if name.partition(".")[0] not in {"leeway", "pipelines"}]) <= MAX_MODULES


def test_dag_that_loads_other_packages_is_detected(tmp_path):
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "heavy.py").write_text("import sqlalchemy.orm, networkx\n")
    new_modules = run_code(tmp_path, PRINT_MODULES_OF_DAGS, str(tmp_path / "dags"))["new"]
    assert not {name.partition(".")[0] for name in new_modules} <= PACKAGES


LOAD_PLUGINS = """
import json, sys
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
import mlflow, os
stems = sys.argv[2].split(",")
files = {name: getattr(sys.modules[name], "__file__", None) or "" for name in stems if name in sys.modules}
folder = os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"]
print(json.dumps({
    "plugins": [plugin.name for plugin in plugins],
    "errors": errors,
    "shadowing": sorted(name for name, path in files.items() if path.startswith(folder)),
    "mlflow": mlflow.__file__,
}))
"""


def load_plugins(tmp_path: Path, has_ignore_file: bool) -> dict[str, Any]:
    """Load plugins/ as Airflow does, with a hook module named mlflow; return what was loaded."""
    folder = tmp_path / "plugins"
    shutil.copytree(ROOT / "plugins", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "leeway" / "hooks" / "mlflow.py").write_text("OWNER = 'leeway'\n")
    if not has_ignore_file:
        (folder / ".airflowignore").unlink()
    stems = sorted({path.stem for path in (folder / "leeway").rglob("*.py")} - {"__init__"})
    assert "mlflow" in stems
    env = {"AIRFLOW__CORE__PLUGINS_FOLDER": str(folder), "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    return run_code(tmp_path, LOAD_PLUGINS, str(folder), ",".join(stems), **env)


def test_plugin_loader_executes_only_the_plugin_file(tmp_path):
    result = load_plugins(tmp_path, has_ignore_file=True)
    assert "leeway" in result["plugins"]
    assert result["errors"] == {}
    assert result["shadowing"] == []
    assert "site-packages" in result["mlflow"]


def test_hook_replaces_mlflow_without_airflowignore(tmp_path):
    result = load_plugins(tmp_path, has_ignore_file=False)
    assert {"mlflow", "ingest"} <= set(result["shadowing"])
    assert "site-packages" not in result["mlflow"]


@pytest.mark.parametrize(
    "module", ["leeway.hooks.sagemaker.uploads", "leeway.training_request", "leeway.operators.spot_training"]
)
def test_modules_of_the_provider_import_no_heavy_library(tmp_path, module):
    assert run_code(tmp_path, f"import json, sys\nbefore = set()\nimport {module}\n" + PRINT_NEW_MODULES)["heavy"] == []
