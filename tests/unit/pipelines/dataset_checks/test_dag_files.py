"""Test that a DAG file is named which Airflow would skip without a word."""

from pathlib import Path

import pytest
from airflow.utils.file import might_contain_dag_via_default_heuristic

from pipelines.dataset_checks.dag_files import find_skipped_files

CALL = "from leeway.lifecycle import create_lifecycle_dags\ncreate_lifecycle_dags(model={name!r}, start=START)\n"


@pytest.mark.parametrize(("first_line", "is_loaded"), [("# For Airflow.\n", True), ("# AIRFLOW\n", True), ("", False)])
def test_a_file_without_the_word_airflow_is_named(tmp_path: Path, first_line: str, is_loaded: bool) -> None:
    file = tmp_path / "dags" / "team" / "orders.py"
    file.parent.mkdir(parents=True)
    file.write_text(first_line + CALL.format(name="orders"))
    assert might_contain_dag_via_default_heuristic(str(file)) == is_loaded, "the rule of Airflow itself"
    assert find_skipped_files(tmp_path, "orders") == ([] if is_loaded else ["dags/team/orders.py"])


def test_files_that_do_not_create_the_dags_of_the_model_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "helper.py").write_text("NAME = 'orders'\n")
    (tmp_path / "dags" / "other.py").write_text(CALL.format(name="other"))
    assert find_skipped_files(tmp_path, "orders") == []
    assert find_skipped_files(tmp_path / "nowhere", "orders") == []
