"""Test DvcReproOperator in a real Airflow with versioned DAGs: the code of the run's version runs, as the docs say."""

from __future__ import annotations

from pathlib import Path

from tests.tools.airflow_project import commit_word, run_git


def test_cleared_run_has_the_code_of_its_version(airflow, start_run, until):
    project = airflow.project
    first = run_git(project, "rev-parse", "HEAD")
    run = start_run("versions", "versioned", wait_for_job=False)
    tasks = [run, run.select_task("plain")]
    until(lambda: [task.get_state() for task in tasks] == ["success"] * 2, 180)
    assert [task.get_result()["git_commit"] for task in tasks] == [first, first]

    second = commit_word(project, "two")
    until(lambda: airflow.call_api("GET", "/dags/versions")["bundle_version"] == second, 120)
    for task in tasks:
        task.clear_task()
    until(lambda: [task.get_state() for task in tasks] == ["success"] * 2, 180)
    versioned, plain = (task.get_result() for task in tasks)
    assert versioned["git_commit"] == first
    assert (Path(versioned["workspace"]) / "data/word.txt").read_text() == "one"
    assert plain["git_commit"] == second, "the negative control: without a version, the project's HEAD runs"
    assert (Path(plain["workspace"]) / "data/word.txt").read_text() == "two"
