"""Install the wheel beside an Airflow that has its constraints, and into an environment for the steps; run both.

Airflow's file of constraints is made of the versions that PyPI had when Airflow was released. The test resolves these
from the index. It is skipped where the index cannot be reached.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.orders_file import make_orders
from tests.tools.wheels import ROOT, build_wheel, find_uv, run_uv

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
AIRFLOW = ("apache-airflow==3.3.2", "apache-airflow-providers-amazon", "apache-airflow-providers-slack")
RELEASED = "2026-09-18T00:00:00Z"
"""The day after Airflow 3.3.2 was released."""
DAG, DAY = "orders_ingest", "2013-01-05"
"""The DAG of two tasks that `leeway new` wrote, and a day of its source."""


def list_installed(environment: Path) -> dict[str, str]:
    """Return the version of each package of an environment but Leeway, by name."""
    lines = run_uv("pip", "freeze", "--python", str(environment)).splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def install(environment: Path, *arguments: str) -> None:
    """Install packages; for what is there already, no other version is chosen unless a requirement needs it."""
    run_uv("pip", "install", "--quiet", "--python", str(environment), *arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the environments and the project."""
    return tmp_path_factory.mktemp("package")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    """Build the wheel."""
    return build_wheel(folder / "dist")


@pytest.fixture(scope="module")
def airflow(folder: Path, wheel: Path) -> Path:
    """Install Airflow by its constraints and then Leeway; no version changes, with the extra or without."""
    (folder / "in.txt").write_text("\n".join([*AIRFLOW, "apache-airflow-providers-amazon[aiobotocore]"]))
    constraints, inputs = folder / "constraints.txt", folder / "in.txt"
    options = ["--python-version", "3.11", "--exclude-newer", RELEASED, "--output-file", str(constraints)]
    command = [find_uv(), "--no-config", "pip", "compile", "--quiet", *options, str(inputs)]
    resolution = subprocess.run(command, capture_output=True)
    if resolution.returncode:
        pytest.skip(f"the package index is not reachable: {resolution.stderr.decode()[-300:]}")
    environment = folder / "airflow"
    run_uv("venv", "--quiet", "--python", sys.executable, str(environment))
    install(environment, "--constraint", str(constraints), *AIRFLOW)
    before = list_installed(environment)
    install(environment, str(wheel))
    with_base = list_installed(environment)
    install(environment, f"leeway[airflow] @ file://{wheel}")
    with_extra = list_installed(environment)
    assert len(before) > 100
    for after in (with_base, with_extra):
        assert {name: after.get(name) for name in before} == before, "Leeway changed a version of Airflow's"
    assert not with_base.keys() - before.keys() - {"pydantic-settings", "python-dotenv", "typing-inspection"}
    run_uv("pip", "check", "--python", str(environment))
    return environment


@pytest.fixture(scope="module")
def steps(folder: Path, wheel: Path) -> Path:
    """Install Leeway with the steps' libraries, in the versions of uv.lock."""
    environment, constraints = folder / "steps", folder / "steps.txt"
    options = ["--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "--extra", "pipelines"]
    lines = run_uv("export", "--quiet", *options, cwd=ROOT).splitlines()
    # The lock overrides the version that sagemaker-core asks for: the checkout has Airflow in the same environment.
    constraints.write_text("\n".join(line for line in lines if not line.startswith("importlib-metadata")))
    run_uv("venv", "--quiet", "--python", sys.executable, str(environment))
    install(environment, "--constraint", str(constraints), f"leeway[pipelines] @ file://{wheel}")
    run_uv("pip", "check", "--python", str(environment))
    assert "apache-airflow" not in list_installed(environment)
    return environment


@pytest.fixture(scope="module")
def project(folder: Path, steps: Path) -> Path:
    """Scaffold a project with the installed Leeway."""
    project = folder / "orders"
    project.mkdir()
    make_orders().to_csv(folder / "orders.csv", index=False)
    command = ("leeway", "new", "--source", str(folder / "orders.csv"), "--label", "returned", "orders")
    created = run(steps, project, *command)
    assert created.returncode == 0, show(created)
    return project


def run(environment: Path, project: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment in the project, without any path of the checkout."""
    own_variables = {
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(project / ".leeway"),
        "AIRFLOW_HOME": str(project / ".airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    inherited_variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(environment / "bin" / command[0]), *command[1:]],
        cwd=project,
        env={**inherited_variables, **own_variables, **variables},
        capture_output=True,
        text=True,
    )


def show(process: subprocess.CompletedProcess[str]) -> str:
    """Return the ends of a process' outputs."""
    return process.stdout[-3_000:] + process.stderr[-3_000:]


def test_dag_of_two_tasks_runs_in_two_environments(airflow: Path, steps: Path, project: Path, folder: Path) -> None:
    migrated = run(airflow, project, "airflow", "db", "migrate")
    assert migrated.returncode == 0, show(migrated)
    errors = run(airflow, project, "airflow", "dags", "list-import-errors", "--local", "--output", "json")
    assert (errors.returncode, errors.stdout.strip().splitlines()[-1:]) in [(0, ["[]"]), (0, ["No data found"])], show(
        errors
    )
    python = {"LEEWAY_PYTHON": str(steps / "bin/python")}
    tested = run(airflow, project, "airflow", "dags", "test", DAG, DAY, **python)
    assert tested.returncode == 0, show(tested)
    assert "state=success" in tested.stdout + tested.stderr, show(tested)
    assert "Plugin 'leeway' already registered" not in tested.stdout + tested.stderr
    shown = run(steps, project, "leeway", "quarantine", "list", "--dataset", "orders")
    assert shown.returncode == 0, show(shown)
    _test_another_version(airflow, steps, project, folder)


def _test_another_version(airflow: Path, steps: Path, project: Path, folder: Path) -> None:
    """Put another version into the environment of the steps, and see that the first task fails, and is not retried."""
    (folder / "old").mkdir()
    other = build_wheel(folder / "old", version="0.0.9")
    original = next((folder / "dist").glob("*.whl"))
    python = {"LEEWAY_PYTHON": str(steps / "bin/python")}
    install(steps, "--no-deps", "--reinstall-package", "leeway", str(other))
    try:
        failed = run(airflow, project, "airflow", "dags", "test", DAG, "2013-01-06", **python)
    finally:
        install(steps, "--no-deps", "--reinstall-package", "leeway", str(original))
    output = failed.stdout + failed.stderr
    assert "AirflowFailException: ingest: Airflow has Leeway 0.1.0, and" in output, show(failed)
    assert "has 0.0.9. Install the same version in both" in output


def test_model_of_a_scaffold_is_trained_and_judged_by_the_installed_code(steps: Path, project: Path) -> None:
    def repro() -> list[str]:
        process = run(steps, project, "dvc", "repro", "gate@orders", LEEWAY_PROJECT="")
        assert process.returncode == 0, show(process)
        return re.findall("Running stage '([^'@]+)", process.stdout)

    assert repro() == ["code", "snapshot", "preprocess", "train", "evaluate", "gate"]
    assert "version: 0.1.0" in (project / "leeway.lock").read_text()
    assert json.loads((project / "models/orders/data/verdict.json").read_text())["checks"]
    assert not (project / "pipelines").exists()
    assert repro() == ["code"], "the negative control: nothing changed"
