"""Test the wheel: its content, and an Airflow and steps that run from it in a project without Leeway's code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from tests.tools.wheels import ROOT, build_wheel, install_apart, write_interpreter

PACKAGES = {"pipelines": ROOT, "drydock": ROOT, "stack": ROOT, "leeway": ROOT / "plugins"}
DATASET = """
from pipelines.dataset import Dataset

DATASET = Dataset(name="orders", key=("date", "number"), label="returned", known_later=("returned",),
                  features={"amount": "number"})
"""
SOURCE = """
import os
from pipelines.ingestion.sources import FileSource

def open_source(folder=None):
    return FileSource(f"{folder or os.environ['LEEWAY_PROJECT']}/source/orders-{{date}}.csv", "csv")
"""
SUITE = {
    "name": "orders",
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "number"}, "severity": "critical"}
    ],
}
DAG_FILE = """
from airflow.sdk import DAG, Asset
from leeway.operators.ingest import IngestOperator
from leeway.operators.validate import ValidateOperator

with DAG("orders", schedule=None):
    ingest = IngestOperator(task_id="ingest", dataset="orders", partition="2026-01-01")
    ingest >> ValidateOperator(task_id="validate", dataset="orders", partition="2026-01-01", asset=Asset("orders"))
"""
DVC_YAML = """
stages:
  code:
    cmd: python -m pipelines code lock
    always_changed: true
    outs:
      - leeway.lock:
          cache: false
  work:
    cmd: python -c "open('out.txt', 'w').write(open('leeway.lock').read())"
    deps: [leeway.lock]
    outs: [out.txt]
"""
# What a worker does with the two tasks, without a scheduler, for each interpreter of the steps.
RUN_DAG = """
import json, sys
import leeway, pipelines
from airflow.dag_processing.dagbag import DagBag
folder, *pythons = sys.argv[1:]
bag = DagBag(folder)
assert bag.import_errors == {}, bag.import_errors
outcomes = {"files": [leeway.__file__, pipelines.__file__]}
for python in pythons:
    outcome = outcomes[python] = {}
    for task in bag.dags["orders"].topological_sort():
        task.actor_variables, task.python = {}, python
        try:
            outcome[task.task_id] = task.run_step(task.step, task.build_spec())
        except Exception as error:
            outcome[task.task_id] = f"{type(error).__name__}: {error}"
print(json.dumps(outcomes))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel once."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed wheel."""
    return install_apart(wheel, tmp_path_factory.mktemp("site") / "site")


def write_project(folder: Path) -> Path:
    """Write a project that has no folder pipelines/, and return its folder."""
    files = {
        "params.yaml": "snapshot: {dataset: orders}\n",
        "dvc.yaml": DVC_YAML,
        "datasets/orders/__init__.py": DATASET,
        "datasets/orders/source.py": SOURCE,
        "expectations/orders.json": json.dumps(SUITE),
        "dags/orders.py": DAG_FILE,
        "source/orders-2026-01-01.csv": "date,number,amount,returned\n2026-01-01,1,9.5,true\n2026-01-01,2,3.25,false\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project that has no folder pipelines/."""
    return write_project(tmp_path / "project")


@dataclass(frozen=True)
class Outcomes:
    """What Airflow's two tasks did with each interpreter."""

    files: list[str]
    """The files of the packages that Airflow imported."""
    same: dict[str, Any]
    """With an interpreter of the same version: task to its result, or to its error."""
    other: dict[str, Any]
    """With an interpreter of another version."""
    none: dict[str, Any]
    """With an interpreter that has no Leeway."""
    other_site: Path
    none_python: Path


@pytest.fixture(scope="module")
def outcomes(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Run the tasks with three interpreters, from one Airflow."""
    folder = tmp_path_factory.mktemp("interpreters")
    project = write_project(folder / "project")
    other_site = install_apart(build_wheel(folder, version="9.8.7"), folder / "other")
    (folder / "empty").mkdir()
    shutil.copy2(site / "sitecustomize.py", folder / "empty")
    sites = {"same": site, "other": other_site, "none": folder / "empty"}
    pythons = {name: write_interpreter(folder / f"python-{name}", sites[name]) for name in sites}
    order = [pythons["other"], pythons["none"], pythons["same"]]
    process = run(site, project, "-c", RUN_DAG, str(project / "dags"), *map(str, order))
    assert process.returncode == 0, process.stderr[-3_000:]
    printed = json.loads(process.stdout.splitlines()[-1])
    by_name = {name: printed[str(python)] for name, python in pythons.items()}
    return Outcomes(printed["files"], **by_name, other_site=other_site, none_python=pythons["none"])


def run(site: Path, project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the installed wheel and without the checkout, in the project."""
    environment = {
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(project / ".leeway"),
        "AIRFLOW_HOME": str(project / ".airflow"),
        "PYTHONPATH": str(site),
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**os.environ, **environment, **variables},
        capture_output=True,
        text=True,
    )


def list_source_files() -> set[str]:
    """List the files of the four packages in the checkout, by the path at which they are imported."""
    return {
        str(path.relative_to(folder))
        for package, folder in PACKAGES.items()
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_has_all_files_of_the_four_packages_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == list_source_files()
    assert {"pipelines/defaults/bundle.txt", "pipelines/py.typed", "leeway/notifiers/mail.html"} <= names
    assert "leeway/page/static/leeway.js" in names


def test_metadata_has_a_light_base_and_the_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (folder,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        entry_points = archive.read(f"{folder}/entry_points.txt").decode()
    requirements = metadata.get_all("Requires-Dist") or []
    base = {requirement.split(">")[0] for requirement in requirements if "extra ==" not in requirement}
    assert base == {"psutil", "pydantic", "pydantic-settings", "pyyaml"}
    assert not [
        requirement for requirement in requirements if "==" in requirement.split(";")[0] and "extra" not in requirement
    ]
    extras = set(metadata.get_all("Provides-Extra") or [])
    steps, jobs = {"pipelines", "sagemaker", "spark", "steps"}, {"language", "torch", "training"}
    assert extras == {"airflow", "drydock", "local", *steps, *jobs}
    for line in ("leeway = leeway.command_line:main", "provider_info = leeway.provider:get_provider_info"):
        assert line in entry_points


def test_all_packages_name_the_version_of_the_distribution() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for path in ("pipelines", "drydock", "plugins/leeway"):
        assert f'__version__ = "{version}"' in (ROOT / path / "__init__.py").read_text()


def test_airflow_runs_the_steps_of_a_project_in_another_installation(site: Path, outcomes: Outcomes) -> None:
    assert all(Path(file).is_relative_to(site) for file in outcomes.files), outcomes.files
    assert outcomes.same["ingest"]["rows"] == 2
    assert outcomes.same["validate"]["changed"] is True


def test_steps_of_another_version_are_refused(outcomes: Outcomes, project: Path) -> None:
    message = outcomes.other["ingest"]
    assert message.startswith("AirflowFailException: ingest: Airflow has Leeway 0.1.0, and ")
    assert "which runs the steps, has 9.8.7. Install the same version in both" in message
    assert "\n" not in message
    direct = run(outcomes.other_site, project, "-m", "pipelines", "ingest", "--partition", "2026-01-01")
    assert direct.returncode == 0, "the negative control: a person's request names no version"


def test_an_interpreter_without_leeway_is_named(outcomes: Outcomes) -> None:
    message = outcomes.none["ingest"]
    assert message.startswith(f"AirflowFailException: {outcomes.none_python} cannot run ingest: ")
    assert message.endswith('Run `pip install "leeway[pipelines]==0.1.0"` in its environment, or change LEEWAY_PYTHON.')


def repro(site: Path, project: Path) -> list[str]:
    """Bring the stage `work` up to date in a workspace; return the stages that ran."""
    options = ("--workspace", "one", "--targets", '["work"]', "--out", "result.json")
    process = run(site, project, "-m", "pipelines", "repro", *options)
    assert process.returncode == 0, process.stderr[-3_000:]
    ran: list[str] = json.loads((project / "result.json").read_text())["ran"]
    return ran


def test_stages_of_a_project_depend_on_the_installed_code(site: Path, project: Path, tmp_path: Path) -> None:
    assert repro(site, project) == ["code", "work"]
    assert repro(site, project) == ["code"], "the negative control: the code is the same"
    workspace = project / ".leeway/workspaces/one"
    assert (workspace / "out.txt").read_text().splitlines()[1] == "version: 0.1.0"
    assert not (workspace / "pipelines").exists()
    changed = tmp_path / "changed"
    shutil.copytree(site, changed)
    with (changed / "pipelines/window.py").open("a") as file:
        file.write("# another version\n")
    assert repro(changed, project) == ["code", "work"]


@pytest.mark.soak
def test_dvc_repro_without_a_workspace_finds_another_leeway(site: Path, project: Path, tmp_path: Path) -> None:
    (project / ".dvc").mkdir()
    (project / ".dvc/config").write_text("[core]\n    no_scm = true\n    analytics = false\n")

    def count_runs(of: Path) -> int:
        process = run(
            of, project, "-m", "dvc", "repro", "work", PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        )
        assert process.returncode == 0, process.stderr[-3_000:]
        return process.stdout.count("Running stage 'work'")

    assert [count_runs(site), count_runs(site)] == [1, 0]
    changed = tmp_path / "changed"
    shutil.copytree(site, changed)
    with (changed / "pipelines/window.py").open("a") as file:
        file.write("# another version\n")
    assert count_runs(changed) == 1


def test_a_checkout_needs_no_leeway_lock(site: Path, project: Path) -> None:
    (project / "pipelines").mkdir()
    shutil.copy2(site / "pipelines/__init__.py", project / "pipelines")
    process = run(site, project, "-P", "-m", "pipelines", "code", "lock")
    assert process.returncode == 2
    assert "has its own copy of Leeway's code" in process.stderr
    assert not (project / "leeway.lock").exists()
