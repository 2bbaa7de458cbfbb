"""Test the request of a tuning job, and which tuning jobs continue the same search."""

from dataclasses import replace
from typing import Any

import pytest
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.sagemaker.named_jobs import MAX_NAMES, build_base_name
from leeway.hooks.tuning.requests import (
    MAX_NAME_CHARS,
    MAX_PARENTS,
    TuningJobs,
    TuningTemplate,
    count_earlier_trials,
)

from pipelines.tuning.plan import PlanSpec

PLAN = PlanSpec(space={"eta": {"low": 0.1, "high": 0.3}}, strategy="random", trials=10, parallel=2, seed=5)
MACHINE = Machine("ml.m5.large", 1, 30, spot=True, max_run_s=60, max_wait_s=120)
TRAINING: dict[str, Any] = {
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "HyperParameters": {"num_round": "4"},
    "InputDataConfig": [{"ChannelName": "train"}],
    "RoleArn": "arn",
    "OutputDataConfig": {"S3OutputPath": "s3://b/jobs"},
    "CheckpointConfig": {"S3Uri": "s3://b/checkpoints"},
    "Environment": {},
    "Tags": [],
}
TEMPLATE = TuningTemplate(TRAINING, MACHINE, PLAN, "x:(.*)", (), {})


def describe(number: int, finished: int = 0, template: TuningTemplate = TEMPLATE) -> dict[str, Any]:
    """Return SageMaker's description of an attempt."""
    return {
        **template.build_request(number=number),
        "HyperParameterTuningJobName": f"base-{number}",
        "ObjectiveStatusCounters": {"Succeeded": finished, "Pending": 0, "Failed": 1},
    }


def with_plan(**changes: Any) -> TuningTemplate:
    """Return the template with another plan."""
    return replace(TEMPLATE, plan=PlanSpec(**{**PLAN.model_dump(), **changes}))


@pytest.mark.parametrize("parts", [("flights_tune", "manual__2013", "tune", -1), ("d" * 90, "r", "t" * 90, 98)])
def test_names_fit_into_those_of_tuning_jobs(parts: Any) -> None:
    name = f"{build_base_name(*parts, max_chars=TuningJobs.max_base_chars)}-{MAX_NAMES}"
    assert len(name) <= MAX_NAME_CHARS == 32


def test_next_attempt_runs_the_trials_that_are_left() -> None:
    earlier = [describe(1, finished=4), describe(2, finished=3), describe(3)]
    request = TEMPLATE.build_request(earlier, 4)
    config = request["HyperParameterTuningJobConfig"]
    assert config["ResourceLimits"]["MaxNumberOfTrainingJobs"] == 3
    assert config["RandomSeed"] == 8, "without a warm start, an equal seed would propose the same values again"
    parents = request["WarmStartConfig"]["ParentHyperParameterTuningJobs"]
    assert [item["HyperParameterTuningJobName"] for item in parents] == ["base-1", "base-2"], "base-3 has no result"
    assert (
        TEMPLATE.build_request([describe(1, finished=10)], 2)["HyperParameterTuningJobConfig"]["ResourceLimits"][
            "MaxNumberOfTrainingJobs"
        ]
        == 1
    )


def test_first_attempt_has_no_parents() -> None:
    request = TEMPLATE.build_request()
    assert "WarmStartConfig" not in request
    assert request["TrainingJobDefinition"]["StaticHyperParameters"] == {"num_round": "4"}
    (metric,) = request["TrainingJobDefinition"]["AlgorithmSpecification"]["MetricDefinitions"]
    assert metric == {"Name": "tuning-objective", "Regex": "x:(.*)"}


def test_hyperband_continues_without_a_warm_start_and_a_grid_begins_again() -> None:
    request = with_plan(strategy="hyperband").build_request([describe(1, finished=4)], 2)
    assert "WarmStartConfig" not in request
    assert request["HyperParameterTuningJobConfig"]["ResourceLimits"]["MaxNumberOfTrainingJobs"] == 6
    grid = with_plan(strategy="grid", space={"eta": [0.1, 0.2, 0.3]})
    assert grid.count_trials_left([describe(1, finished=2)]) == 3


def test_trials_of_the_parents_and_of_their_parents_are_counted_once() -> None:
    counters = {"Completed": 3, "Stopped": 1, "NonRetryableError": 1, "RetryableError": 0, "InProgress": 0}
    names = {"a-1": ["b-1", "gone-1"], "a-2": ["a-1", "b-1"], "b-1": ["a-2"]}
    jobs = {
        name: {
            "TrainingJobStatusCounters": counters,
            "WarmStartConfig": {
                "ParentHyperParameterTuningJobs": [{"HyperParameterTuningJobName": parent} for parent in parents]
            },
        }
        for name, parents in names.items()
    }
    assert count_earlier_trials(["a-2"], jobs.get, []) == 15
    assert count_earlier_trials(["a-2"], jobs.get, ["b-1"]) == 10, "those of the search itself are its trials"
    assert count_earlier_trials([], jobs.get, []) == 0


def test_search_of_another_task_is_only_a_hint() -> None:
    template = replace(TEMPLATE, parents=["other-1"])
    request = template.build_request()
    assert request["WarmStartConfig"]["WarmStartType"] == "TransferLearning"
    assert request["HyperParameterTuningJobConfig"]["ResourceLimits"]["MaxNumberOfTrainingJobs"] == 10


def test_same_search_is_recognized_with_other_limits() -> None:
    job = describe(2)
    # SageMaker adds this setting to the description.
    job["TrainingJobDefinition"]["StaticHyperParameters"] = {"num_round": "4", "_tuning_objective_metric": "x"}
    assert TEMPLATE.has_same_search(job)
    assert with_plan(trials=50, parallel=5, max_hours=3).has_same_search(job)


@pytest.mark.parametrize(
    "changes",
    [
        {"strategy": "bayesian"},
        {"seed": 6},
        {"early_stopping": "median"},
        {"space": {"eta": {"low": 0.1, "high": 0.4}}},
        {"space": {"eta": {"low": 0.1, "high": 0.3}, "booster": ["gbtree", "dart"]}},
    ],
)
def test_another_plan_is_another_search(changes: dict[str, Any]) -> None:
    assert not with_plan(**changes).has_same_search(describe(1))


@pytest.mark.parametrize(
    "changes",
    [
        {"HyperParameters": {"num_round": "5"}},
        {"HyperParameters": {}},
        {"InputDataConfig": [{"ChannelName": "other"}]},
        {"AlgorithmSpecification": {"TrainingImage": "other", "TrainingInputMode": "File"}},
    ],
)
def test_other_inputs_are_another_search(changes: dict[str, Any]) -> None:
    assert not replace(TEMPLATE, training={**TRAINING, **changes}).has_same_search(describe(1))
    more_hosts = replace(MACHINE, instance_count=2)
    assert not replace(TEMPLATE, machine=more_hosts).has_same_search(describe(1))


def test_another_warm_start_is_another_search() -> None:
    template = replace(TEMPLATE, parents=["other-1", "third-1"])
    job = {**template.build_request([describe(1, finished=4)], 2), "HyperParameterTuningJobName": "base-2"}
    names = [item["HyperParameterTuningJobName"] for item in job["WarmStartConfig"]["ParentHyperParameterTuningJobs"]]
    assert names == ["other-1", "third-1", "base-1"]
    assert template.has_same_search(job), "an earlier attempt of the same task is no other warm start"
    assert not TEMPLATE.has_same_search(job)
    assert not template.has_same_search(describe(1)), "it learned from no other tuning job"
    assert not replace(TEMPLATE, parents=["other-1", "fourth-1"]).has_same_search(job)


def test_parents_that_gave_way_to_earlier_attempts_do_not_count() -> None:
    template = replace(TEMPLATE, parents=[f"other-{number}" for number in range(MAX_PARENTS)])
    earlier_jobs = [describe(number, finished=1) for number in (1, 2)]
    job = {**template.build_request(earlier_jobs, 3), "HyperParameterTuningJobName": "base-3"}
    assert template.has_same_search(job)
    assert not replace(TEMPLATE, parents=["other-0"]).has_same_search(job)
