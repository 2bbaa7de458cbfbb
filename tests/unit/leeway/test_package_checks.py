"""Test that another package of the name of one of Leeway's is refused."""

import subprocess
import sys
from pathlib import Path

import pytest
from leeway.hooks.step.hook import StepHook
from leeway.package_checks import MARKERS, ForeignPackageError, require_package

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", sorted(MARKERS))
def test_own_package_is_recognised(name):
    require_package(name)
    require_package(name, [str(ROOT)])


@pytest.mark.parametrize("file", ["pipelines/__init__.py", "pipelines.py"])
def test_package_or_module_of_a_user_is_refused(file, tmp_path):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(
        ForeignPackageError, match=rf"{tmp_path}/pipelines.* hides Leeway's package 'pipelines'"
    ) as error:
        require_package("pipelines", [str(tmp_path), str(ROOT)])
    assert "\n" not in str(error.value)
    require_package("pipelines", [str(ROOT), str(tmp_path)])  # Leeway's is found first


def test_folder_without_init_is_no_package(tmp_path):
    """Python takes the installed package, whatever comes first."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/work.py").touch()
    require_package("pipelines", [str(tmp_path), str(ROOT)])


def test_name_that_is_found_nowhere_is_no_error(tmp_path):
    require_package("pipelines", [str(tmp_path)])


def test_module_of_the_markers_name_does_not_count(tmp_path):
    (tmp_path / "pipelines.py").touch()
    (tmp_path / "code_files.py").touch()
    with pytest.raises(ForeignPackageError):
        require_package("pipelines", [str(tmp_path)])


def test_operator_names_a_package_of_the_project_before_its_step_starts(write_python, project, log):
    from airflow.sdk.exceptions import AirflowFailException

    python = write_python("result(ok=True)")
    assert StepHook(log, python).run("ingest", {})["ok"]
    (project / "pipelines").mkdir()
    (project / "pipelines/__init__.py").touch()
    with pytest.raises(AirflowFailException, match="hides Leeway's package 'pipelines'"):
        StepHook(log, python).run("ingest", {})


@pytest.mark.parametrize("module", ["operators.ingest", "links.report", "notifiers.lifecycle"])
def test_dag_that_imports_an_operator_shows_the_line(module, tmp_path):
    (tmp_path / "pipelines.py").touch()
    path = f"{tmp_path}:{ROOT}:{ROOT / 'plugins'}"
    command = [sys.executable, "-c", f"import leeway.{module}"]
    process = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert process.stderr.splitlines()[-1].startswith(
        f"leeway.package_checks.ForeignPackageError: {tmp_path}/pipelines.py hides Leeway's package 'pipelines'"
    )
