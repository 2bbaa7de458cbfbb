"""Test the names and inputs of training jobs: they depend on the task alone."""

import itertools
import re

import pytest
from leeway.hooks.sagemaker.named_jobs import MAX_NAMES, build_base_name, compute_digest
from leeway.hooks.training.inputs import build_inputs, has_same_inputs

NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
"""Names that SageMaker accepts as TrainingJobName."""


@pytest.mark.parametrize(
    "task_parts",
    [
        ("flights_train", "scheduled__2013-03-01T00:00:00+00:00", "train", -1),
        ("d" * 250, "r" * 250, "group." + "t" * 200, 12_345),
        ("___", "run", "...", 0),
        ("a" * 42, "run", "-b", 0),
    ],
)
def test_sagemaker_accepts_every_name(task_parts):
    for number in (1, MAX_NAMES):
        assert NAME.fullmatch(f"{build_base_name(*task_parts)}-{number}")
    assert build_base_name(*task_parts) == build_base_name(*task_parts)


def test_each_task_has_its_own_name():
    parts = [("dag", "dag2"), ("run", "run2"), ("task", "task2"), (-1, 0, 1)]
    names = [build_base_name(*task_parts) for task_parts in itertools.product(*parts)]
    assert len(set(names)) == 24
    # These differ only after the characters that a name keeps, or only in where a part ends.
    assert build_base_name("d" * 100 + "1", "run", "t", -1) != build_base_name("d" * 100 + "2", "run", "t", -1)
    assert build_base_name("ab", "run", "c", -1) != build_base_name("a", "run", "bc", -1)


def make_request(count=1, **fields):
    """Return the inputs, with the number of instances."""
    return {**make_inputs(**fields), "ResourceConfig": {"InstanceCount": count, "InstanceType": "ml.m5.large"}}


def make_inputs(**fields):
    defaults = {
        "image": "xgb:1", "hyperparameters": {"eta": 0.1, "depth": 6}, "code": "s3://b/c.tar.gz", "program": "t.py",
        "channels": {"train": "s3://b/t/", "validation": "s3://b/v/"},
    }  # fmt: skip
    return build_inputs(**{**defaults, **fields})


def test_inputs_are_strings_in_a_fixed_order():
    reordered_fields = {
        "channels": {"validation": "s3://b/v/", "train": "s3://b/t/"},
        "hyperparameters": {"depth": 6, "eta": 0.1},
    }
    assert make_inputs() == make_inputs(**reordered_fields)
    assert compute_digest(make_inputs()) == compute_digest(make_inputs(**reordered_fields))
    assert all(isinstance(value, str) for value in make_inputs()["HyperParameters"].values())


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "xgb:2"},
        {"hyperparameters": {"eta": 0.2, "depth": 6}},
        {"hyperparameters": {"eta": 0.1}},
        {"code": "s3://b/d.tar.gz"},
        {"channels": {"train": "s3://b/t/"}},
        {"channels": {"train": "s3://b/t/", "validation": "s3://b/w/"}},
        {"sharded_channels": ["train"]},
    ],
)
def test_whatever_changes_the_model_changes_the_inputs(fields):
    assert compute_digest(make_inputs(**fields)) != compute_digest(make_inputs())
    assert not has_same_inputs(make_request(), make_request(**fields))
    assert not has_same_inputs(make_request(**fields), make_request())


def test_a_job_on_another_number_of_instances_is_another_job():
    assert not has_same_inputs(make_request(1), make_request(2))
    # The type may change: a task may try several.
    described_job = make_request(2)
    described_job["ResourceConfig"] |= {"InstanceType": "ml.m5.xlarge", "VolumeSizeInGB": 30}
    assert has_same_inputs(described_job, make_request(2))


def test_defaults_that_sagemaker_adds_leave_the_inputs_the_same():
    described_job = make_request()
    for channel in described_job["InputDataConfig"]:
        channel |= {"CompressionType": "None", "RecordWrapperType": "None"}
    described_job["AlgorithmSpecification"]["EnableSageMakerMetricsTimeSeries"] = False
    assert has_same_inputs(described_job, make_request())
