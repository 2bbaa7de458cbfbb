"""Test which fields instance_type="auto" needs; tests/integration/leeway/test_instance_choice.py tests the choice."""

import dataclasses
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.training.fields import TrainingFields
from leeway.hooks.training.instance_choice import resolve_instance_type

TASK = SimpleNamespace(task_label="task train")


def make_fields(**values):
    """Make the fields of an operator; those that do not matter are None."""
    return TrainingFields(**dict.fromkeys(field.name for field in dataclasses.fields(TrainingFields)) | values)


@pytest.mark.parametrize("deadline", ["", "None", None])
def test_a_deadline_whose_param_has_no_value_is_none(deadline):
    """Jinja renders a null param to the text None."""
    fields = make_fields(instance_type="ml.m5.large", deadline=deadline)
    assert resolve_instance_type(TASK, fields).deadline == ""


def test_a_deadline_without_auto_is_refused():
    with pytest.raises(AirflowFailException, match="deadline of task train has no effect without instance_type='auto'"):
        resolve_instance_type(TASK, make_fields(instance_type="ml.m5.large", deadline="24h"))
