"""Test what EvaluateOperator passes on from the result of a training."""

from typing import Any

from leeway.operators.evaluate import TRAINING_FACTS, EvaluateOperator

from pipelines.registry.lineage import build_cost_metrics, build_cost_tags

TRAINING = {"model": "s3://b/model.tar.gz", "record": "s3://b/output.tar.gz", "training_job": "job"}


def build_spec(**fields: Any) -> dict[str, Any]:
    """Return the spec for the result of a training."""
    return EvaluateOperator(task_id="evaluate", workspace="/w", training={**TRAINING, **fields}).build_spec()


def test_record_of_a_tuning_reaches_the_evaluation() -> None:
    record = {"name": "tune-1", "trials": 3}
    assert build_spec(tuning=record)["tuning"] == record
    assert "tuning" not in build_spec(tuning={}) and "tuning" not in build_spec()


def test_the_choice_of_the_instance_type_becomes_tags_and_metrics_in_mlflow() -> None:
    facts = dict.fromkeys(TRAINING_FACTS, "1")
    choice = {"instance_choice": "ml.m5.large: the cheapest", "predicted_s": 60.0, "predicted_usd": 0.1}

    def build_lineage(training: dict[str, Any]) -> dict[str, str]:
        task = EvaluateOperator(
            task_id="evaluate", workspace="/w", model="flights", training=TRAINING | facts | training
        )
        task.actor_variables = {"LEEWAY_RUN": "dag/run"}
        return dict(task.build_spec()["lineage"])

    lineage = build_lineage(choice)
    assert build_cost_tags(lineage)["leeway.instance_choice"] == "ml.m5.large: the cheapest"
    assert build_cost_metrics(lineage)["predicted_usd"] == 0.1
    # A task that names its type, and a result of an earlier version.
    for training in ({"instance_choice": "", "predicted_s": None, "predicted_usd": None}, {}):
        assert build_lineage(training).keys() == {*TRAINING_FACTS, "dag_run"}
