"""Test what EvaluateOperator passes on from the result of a training."""

from typing import Any

from leeway.operators.evaluate import EvaluateOperator

TRAINING = {"model": "s3://b/model.tar.gz", "record": "s3://b/output.tar.gz", "training_job": "job"}


def build_spec(**fields: Any) -> dict[str, Any]:
    """Return the spec for the result of a training."""
    return EvaluateOperator(task_id="evaluate", workspace="/w", training={**TRAINING, **fields}).build_spec()


def test_record_of_a_tuning_reaches_the_evaluation() -> None:
    record = {"name": "tune-1", "trials": 3}
    assert build_spec(tuning=record)["tuning"] == record
    assert "tuning" not in build_spec(tuning={}) and "tuning" not in build_spec()
