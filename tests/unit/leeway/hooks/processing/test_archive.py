"""Test the archive of code that a processing job runs: Leeway's own and that of the project's datasets."""

import io
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.processing.task import ProcessingTask

ROOT = Path(__file__).parents[5]


def list_members(project: Path) -> list[str]:
    """List the files of the archive for a project."""
    content = ProcessingTask._build_archive(SimpleNamespace(project_folder=project))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.namelist()


def test_the_datasets_of_the_project_are_imported_beside_the_examples(tmp_path: Path) -> None:
    (tmp_path / "datasets/orders").mkdir(parents=True)
    (tmp_path / "datasets/orders/__init__.py").touch()
    members = list_members(tmp_path)
    assert "pipelines/datasets/orders/__init__.py" in members
    assert {"__main__.py", "pipelines/datasets/__init__.py", "pipelines/steps/preprocess.py"} < set(members)
    assert members == list_members(tmp_path), "equal files, equal order"
    assert "pipelines/datasets/orders/__init__.py" not in list_members(ROOT), "the negative control"


def test_a_project_with_code_of_its_own_does_not_use_that_of_the_installation(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/__init__.py").touch()
    with pytest.raises(AirflowFailException, match="set LEEWAY_PROJECT to the project's folder"):
        list_members(tmp_path)
