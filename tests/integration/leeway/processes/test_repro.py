"""Test DvcReproOperator in a real Airflow with versioned DAGs: a run keeps the code of its version, as the docs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.airflow_project import commit_word, run_git


@pytest.mark.soak
def test_cleared_run_has_the_code_of_its_version(airflow, start_run, until):
    project = airflow.project
    first_commit = run_git(project, "rev-parse", "HEAD")
    versioned_task = start_run("versions", "versioned", wait_for_job=False)
    tasks = [versioned_task, versioned_task.select_task("head")]
    until(lambda: [task.get_state() for task in tasks] == ["success"] * 2, 180)
    assert [task.get_result()["git_commit"] for task in tasks] == [first_commit, first_commit]

    second_commit = commit_word(project, "two")
    until(lambda: airflow.call_api("GET", "/dags/versions")["bundle_version"] == second_commit, 250)
    for task in tasks:
        task.clear_task()
    until(lambda: [task.get_state() for task in tasks] == ["success"] * 2, 180)
    versioned_result, head_result = (task.get_result() for task in tasks)
    assert versioned_result["git_commit"] == first_commit
    assert (Path(versioned_result["workspace"]) / "data/word.txt").read_text() == "one"
    assert head_result["git_commit"] == second_commit, "the negative control: the task that asks for HEAD gets it"
    assert (Path(head_result["workspace"]) / "data/word.txt").read_text() == "two"
