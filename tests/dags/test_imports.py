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
    "packaging", "pytz",
}  # fmt: skip
"""Packages that parsing dags/ may load beyond those that Airflow's SageMaker operator loads."""
MAX_MODULES = 80
"""Number of modules that parsing dags/ may load beyond the operator's. Leeway's own modules do not count.

The decorator `task_group` loads 23 of them, in 25 ms.

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
LIST_MODULES = (
    IMPORT_OPERATOR
    + f"""
import importlib, os
programs = {{"dags": {EXECUTE_DAGS!r}, "import": "importlib.import_module(sys.argv[1])"}}
for kind, argument in json.loads(sys.argv[1]):
    sys.stdout.flush()
    if os.fork() == 0:
        sys.argv[1] = argument
        exec(programs[kind], globals())
        exec({PRINT_NEW_MODULES!r}, globals())
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0, argument
"""
)
"""Program that imports Airflow once, and forks a child for each pair of a kind and its folder or module."""
PROVIDER_MODULES = ("leeway.hooks.sagemaker.uploads", "leeway.training_request", "leeway.operators.spot_training")
HEAVY_DAGS = {"pandas": "import pandas\n", "networkx": "import sqlalchemy.orm, networkx\n"}


def run_code(tmp_path: Path, code: str, *arguments: str, **env: str) -> list[str]:
    """Run code in a new process; return the lines that it prints."""
    variables = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"}
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, env={**os.environ, **variables, **env},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2_000:]
    return process.stdout.splitlines()


@pytest.fixture(scope="module")
def loaded_modules(tmp_path_factory):
    """Return what parsing dags/ loads, what parsing each of `HEAVY_DAGS` loads, and what importing a module loads."""
    folder = tmp_path_factory.mktemp("dags")
    cases = {"dags": ("dags", str(ROOT / "dags"))}
    for name, code in HEAVY_DAGS.items():
        (folder / name).mkdir()
        (folder / name / "heavy.py").write_text(code)
        cases[name] = ("dags", str(folder / name))
    cases |= {name: ("import", name) for name in PROVIDER_MODULES}
    lines = run_code(folder, LIST_MODULES, json.dumps(list(cases.values())))
    return dict(zip(cases, map(json.loads, lines[-len(cases) :]), strict=True))


def test_parsing_dags_imports_no_heavy_library(loaded_modules):
    assert loaded_modules["dags"]["heavy"] == []


def test_heavy_import_in_a_dag_is_detected(loaded_modules):
    assert {"pandas", "numpy"} <= set(loaded_modules["pandas"]["heavy"])


def test_parsing_dags_loads_few_modules_beyond_airflow(loaded_modules):
    new_modules = loaded_modules["dags"]["new"]
    assert {name.partition(".")[0] for name in new_modules} <= PACKAGES
    assert len([name for name in new_modules if name.partition(".")[0] not in {"leeway", "pipelines"}]) <= MAX_MODULES


def test_dag_that_loads_other_packages_is_detected(loaded_modules):
    new_modules = loaded_modules["networkx"]["new"]
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
    return dict(json.loads(run_code(tmp_path, LOAD_PLUGINS, str(folder), ",".join(stems), **env)[-1]))


def test_plugin_loader_executes_only_the_plugin_file(tmp_path):
    result = load_plugins(tmp_path, has_ignore_file=True)
    assert "leeway" in result["plugins"]
    assert result["errors"] == {}
    assert result["shadowing"] == []
    assert "site-packages" in result["mlflow"]


@pytest.mark.soak
def test_hook_replaces_mlflow_without_airflowignore(tmp_path):
    result = load_plugins(tmp_path, has_ignore_file=False)
    assert {"mlflow", "ingest"} <= set(result["shadowing"])
    assert "site-packages" not in result["mlflow"]


@pytest.mark.parametrize("module", PROVIDER_MODULES)
def test_modules_of_the_provider_import_no_heavy_library(loaded_modules, module):
    assert loaded_modules[module]["heavy"] == []
