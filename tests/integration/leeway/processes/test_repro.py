"""DvcReproOperator in a real Airflow whose DAGs have versions: the code of the run's version runs, as docs say."""

from __future__ import annotations

from pathlib import Path

from tests.tools.airflow_project import commit_word, run_git


def test_a_run_that_is_cleared_has_the_code_of_its_version(airflow, begun, until):
    project = airflow.project
    one = run_git(project, "rev-parse", "HEAD")
    run = begun("versions", "versioned", works=False)
    tasks = [run, run.of("plain")]
    until(lambda: [task.state() for task in tasks] == ["success"] * 2, 180)
    assert [task.result()["git_commit"] for task in tasks] == [one, one]

    two = commit_word(project, "two")
    until(lambda: airflow.call("GET", "/dags/versions")["bundle_version"] == two, 120)
    for task in tasks:
        task.clear()
    until(lambda: [task.state() for task in tasks] == ["success"] * 2, 180)
    versioned, plain = (task.result() for task in tasks)
    assert versioned["git_commit"] == one
    assert (Path(versioned["workspace"]) / "data/word.txt").read_text() == "one"
    assert plain["git_commit"] == two, "the negative control: else it is the project's HEAD"
    assert (Path(plain["workspace"]) / "data/word.txt").read_text() == "two"
