"""Names and inputs of training jobs: pure functions of what the task is."""

import itertools
import re

import pytest
from leeway.hooks.sagemaker.named_jobs import MAX_NAMES, build_base_name, digest
from leeway.hooks.training.inputs import build_inputs, has_same_inputs

NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
"""What SageMaker takes as a TrainingJobName."""


@pytest.mark.parametrize(
    "told",
    [
        ("flights_train", "scheduled__2013-03-01T00:00:00+00:00", "train", -1),
        ("d" * 250, "r" * 250, "group." + "t" * 200, 12_345),
        ("___", "run", "...", 0),
        ("a" * 42, "run", "-b", 0),
    ],
)
def test_every_name_is_one_that_sagemaker_takes(told):
    for number in (1, MAX_NAMES):
        assert NAME.fullmatch(f"{build_base_name(*told)}-{number}")
    assert build_base_name(*told) == build_base_name(*told)


def test_no_two_tasks_share_a_name():
    parts = [("dag", "dag2"), ("run", "run2"), ("task", "task2"), (-1, 0, 1)]
    names = [build_base_name(*told) for told in itertools.product(*parts)]
    assert len(set(names)) == 24
    # Long ones differ only past what is kept of them, or only in where one part ends.
    assert build_base_name("d" * 100 + "1", "run", "t", -1) != build_base_name("d" * 100 + "2", "run", "t", -1)
    assert build_base_name("ab", "run", "c", -1) != build_base_name("a", "run", "bc", -1)


def asked(**more):
    given = {
        "image": "xgb:1", "hyperparameters": {"eta": 0.1, "depth": 6}, "code": "s3://b/c.tar.gz", "program": "t.py",
        "channels": {"train": "s3://b/t/", "validation": "s3://b/v/"},
    }  # fmt: skip
    return build_inputs(**{**given, **more})


def test_inputs_are_strings_in_an_order_of_their_own():
    other = {"channels": {"validation": "s3://b/v/", "train": "s3://b/t/"}, "hyperparameters": {"depth": 6, "eta": 0.1}}
    assert asked() == asked(**other)
    assert digest(asked()) == digest(asked(**other))
    assert all(isinstance(value, str) for value in asked()["HyperParameters"].values())


@pytest.mark.parametrize(
    "more",
    [
        {"image": "xgb:2"},
        {"hyperparameters": {"eta": 0.2, "depth": 6}},
        {"hyperparameters": {"eta": 0.1}},
        {"code": "s3://b/d.tar.gz"},
        {"channels": {"train": "s3://b/t/"}},
        {"channels": {"train": "s3://b/t/", "validation": "s3://b/w/"}},
    ],
)
def test_whatever_changes_the_model_changes_the_inputs(more):
    assert digest(asked(**more)) != digest(asked())
    assert not has_same_inputs(asked(), asked(**more))
    assert not has_same_inputs(asked(**more), asked())


def test_defaults_that_sagemaker_adds_are_no_other_inputs():
    told = asked()
    for channel in told["InputDataConfig"]:
        channel |= {"CompressionType": "None", "RecordWrapperType": "None"}
    told["AlgorithmSpecification"]["EnableSageMakerMetricsTimeSeries"] = False
    assert has_same_inputs(told, asked())
