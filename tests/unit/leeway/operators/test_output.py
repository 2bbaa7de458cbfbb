"""`task.output["field"]`: one field of a task's result, in the fields of another."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from leeway.operators.profile import ProfileOperator
from leeway.operators.score import ScoreOperator

RESULT = {"version": "2", "rows": "/srv/{{ not_a_template }}.parquet", "scored": 7}


def chained(**fields: Any) -> tuple[DAG, ProfileOperator]:
    """A DAG with a task `profile` whose fields are made of the task `score`."""
    with DAG("outputs") as dag:
        score = ScoreOperator(task_id="score", dataset="flights", model_name="flights", partition="2013-01-01")
        taken = {name: take(score) for name, take in fields.items()}
        profile = ProfileOperator(
            task_id="profile", model_name="flights", **{"version": "1", "rows": "", "partition": "2013-01-01", **taken}
        )
    return dag, profile


def render(task: ProfileOperator, result: Any) -> ProfileOperator:
    ti = SimpleNamespace(xcom_pull=lambda task_ids, **_: {"score": result}[task_ids])
    task.render_template_fields({"ti": ti, "dag": task.dag, "run_id": "run", "dag_run": SimpleNamespace()})  # type: ignore[arg-type]
    return task


def test_a_field_keeps_its_type_and_is_not_rendered_again():
    _, profile = chained(rows=lambda score: score.output["rows"], sketch_rows=lambda score: score.output["scored"])
    render(profile, RESULT)
    assert (profile.rows, profile.sketch_rows) == (RESULT["rows"], 7)


def test_the_whole_result_and_fields_inside_of_a_dictionary():
    _, profile = chained(env=lambda score: {"ALL": score.output, "ONE": score.output["version"]})
    assert render(profile, RESULT).env == {"ALL": RESULT, "ONE": "2"}


def test_a_field_inside_of_a_string():
    _, profile = chained(rows=lambda score: f"{score.output['version']}/rows")
    assert render(profile, RESULT).rows == "2/rows"


def test_the_task_that_takes_a_field_follows_the_one_that_gives_it():
    _, profile = chained(env=lambda score: {"VERSION": score.output["version"]})
    assert profile.upstream_task_ids == {"score"}


def test_a_task_that_was_skipped_gives_none():
    _, profile = chained(version=lambda score: score.output["version"])
    assert render(profile, None).version is None


def test_a_field_that_the_result_has_not_is_an_error():
    _, profile = chained(version=lambda score: score.output["colour"])
    with pytest.raises(KeyError, match="colour"):
        render(profile, RESULT)


def test_a_dag_with_outputs_is_serialized_mapped_tasks_included():
    dag, _ = chained(version=lambda score: score.output["version"])
    with dag:
        score = dag.get_task("score")
        ProfileOperator.partial(
            task_id="mapped", model_name="flights", version=score.output["version"], rows=score.output["rows"]
        ).expand(partition=["2013-01-01", "2013-01-02"])
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert read.get_task("mapped").upstream_task_ids == {"score"}
    assert "score" in read.get_task("profile").version
