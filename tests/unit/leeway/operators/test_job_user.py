"""Test whose name the jobs of a DAG run get for the reports of costs."""

from types import SimpleNamespace

from leeway.operators.job import find_user


def test_user_is_the_person_who_started_the_run_unless_it_is_set_for_all(monkeypatch):
    person = {"dag_run": SimpleNamespace(triggering_user_name="ada")}
    assert find_user(person) == {"LEEWAY_USER": "ada"}
    assert find_user({"dag_run": SimpleNamespace(triggering_user_name=None)}) == {}, "a schedule"
    assert find_user({}) == {}
    monkeypatch.setenv("LEEWAY_USER", "team account")
    assert find_user(person) == {}
