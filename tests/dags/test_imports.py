"""Nothing heavy is imported by parsing dags/, and Airflow's plugin loader executes one file only."""

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
"""Whose modules parsing dags/ may load beyond Airflow and its SageMaker operator; `benchmarks parse` times it."""
MAX_MODULES = 60
"""Of others: each DAG and operator is a module of ours."""

BASE = """
import json, sys
import airflow.sdk
from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator
before = set(sys.modules)
"""
DAGS = """
import importlib.util, pathlib
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""
TELL = f"""
print(json.dumps({{
    "new": sorted(set(sys.modules) - before),
    "heavy": [name for name in {HEAVY!r} if name in sys.modules],
}}))
"""


def fresh(tmp_path: Path, code: str, *arguments: str, **env: str) -> dict[str, Any]:
    """What a new process tells, as JSON, at the end of `code`."""
    own = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"}
    answer = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, env={**os.environ, **own, **env},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr[-2_000:]
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def test_parsing_dags_imports_nothing_heavy(tmp_path):
    assert fresh(tmp_path, BASE + DAGS + TELL, str(ROOT / "dags"))["heavy"] == []


def test_heavy_import_in_a_dag_is_caught(tmp_path):
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "planted.py").write_text("import pandas\n")
    assert {"pandas", "numpy"} <= set(fresh(tmp_path, BASE + DAGS + TELL, str(tmp_path / "dags"))["heavy"])


def test_parsing_dags_loads_little_more_than_airflow_itself(tmp_path):
    new = fresh(tmp_path, BASE + DAGS + TELL, str(ROOT / "dags"))["new"]
    assert {name.partition(".")[0] for name in new} <= PACKAGES
    assert len([name for name in new if name.partition(".")[0] not in {"leeway", "pipelines"}]) <= MAX_MODULES


def test_dag_that_loads_more_is_seen(tmp_path):
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "planted.py").write_text("import sqlalchemy.orm, networkx\n")
    new = fresh(tmp_path, BASE + DAGS + TELL, str(tmp_path / "dags"))["new"]
    assert not {name.partition(".")[0] for name in new} <= PACKAGES


PLUGINS = """
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


def loaded(tmp_path: Path, ignore: bool) -> dict[str, Any]:
    """What Airflow's plugin loader makes of plugins/ with a module named like mlflow among the hooks."""
    folder = tmp_path / "plugins"
    shutil.copytree(ROOT / "plugins", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "leeway" / "hooks" / "mlflow.py").write_text("WHOSE = 'ours'\n")
    if not ignore:
        (folder / ".airflowignore").unlink()
    stems = sorted({path.stem for path in (folder / "leeway").rglob("*.py")} - {"__init__"})
    assert "mlflow" in stems
    env = {"AIRFLOW__CORE__PLUGINS_FOLDER": str(folder), "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    return fresh(tmp_path, PLUGINS, str(folder), ",".join(stems), **env)


def test_plugin_loader_executes_only_the_plugin_file(tmp_path):
    told = loaded(tmp_path, ignore=True)
    assert "leeway" in told["plugins"]
    assert told["errors"] == {}
    assert told["shadowing"] == []
    assert "site-packages" in told["mlflow"]


def test_without_airflowignore_a_hook_would_replace_mlflow(tmp_path):
    told = loaded(tmp_path, ignore=False)
    assert {"mlflow", "ingest"} <= set(told["shadowing"])
    assert "site-packages" not in told["mlflow"]


@pytest.mark.parametrize(
    "module", ["leeway.hooks.sagemaker.uploads", "leeway.training_request", "leeway.operators.spot_training"]
)
def test_each_module_of_the_provider_is_light(tmp_path, module):
    assert fresh(tmp_path, f"import json, sys\nbefore = set()\nimport {module}\n" + TELL)["heavy"] == []
