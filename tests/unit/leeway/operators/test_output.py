"""Test `task.output["field"]`: a field of one task's result in the arguments of another task."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from leeway.operators.profile import ProfileOperator
from leeway.operators.score import ScoreOperator

RESULT = {"version": "2", "rows": "/srv/{{ not_a_template }}.parquet", "scored": 7}


def make_dag(**functions: Any) -> tuple[DAG, ProfileOperator]:
    """Return a DAG and its task `profile`. Each function computes an argument of it from the task `score`."""
    with DAG("outputs") as dag:
        score = ScoreOperator(task_id="score", dataset="flights", model="flights", partition="2013-01-01")
        arguments = {name: function(score) for name, function in functions.items()}
        profile = ProfileOperator(
            task_id="profile",
            model="flights",
            **{"version": "1", "rows": "", "partition": "2013-01-01", **arguments},
        )
    return dag, profile


def render(task: ProfileOperator, result: Any) -> ProfileOperator:
    """Render the templates of a task with a result of the task `score`."""
    ti = SimpleNamespace(xcom_pull=lambda task_ids, **_: {"score": result}[task_ids])
    context: Any = {"ti": ti, "dag": task.dag, "run_id": "run", "dag_run": SimpleNamespace()}
    task.render_template_fields(context)
    return task


def test_field_keeps_its_type_and_is_not_rendered_again():
    _, profile = make_dag(rows=lambda score: score.output["rows"], partition=lambda score: score.output["scored"])
    render(profile, RESULT)
    assert (profile.rows, profile.partition) == (RESULT["rows"], 7)


def test_dictionary_may_contain_the_whole_result_and_fields():
    _, profile = make_dag(env=lambda score: {"ALL": score.output, "ONE": score.output["version"]})
    assert render(profile, RESULT).env == {"ALL": RESULT, "ONE": "2"}


def test_string_may_contain_a_field():
    _, profile = make_dag(rows=lambda score: f"{score.output['version']}/rows")
    assert render(profile, RESULT).rows == "2/rows"


def test_task_that_uses_a_field_runs_after_the_task_of_the_field():
    _, profile = make_dag(env=lambda score: {"VERSION": score.output["version"]})
    assert profile.upstream_task_ids == {"score"}


def test_field_of_a_skipped_task_is_none():
    _, profile = make_dag(version=lambda score: score.output["version"])
    assert render(profile, None).version is None


def test_missing_field_is_an_error():
    _, profile = make_dag(version=lambda score: score.output["colour"])
    with pytest.raises(KeyError, match="colour"):
        render(profile, RESULT)


def test_dag_with_outputs_and_mapped_tasks_is_serialized():
    dag, _ = make_dag(version=lambda score: score.output["version"])
    with dag:
        score = dag.get_task("score")
        ProfileOperator.partial(
            task_id="mapped", model="flights", version=score.output["version"], rows=score.output["rows"]
        ).expand(partition=["2013-01-01", "2013-01-02"])
    deserialized: Any = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert deserialized.get_task("mapped").upstream_task_ids == {"score"}
    assert "score" in deserialized.get_task("profile").version
