"""Test the request of a tuning job, and which tuning jobs continue the same search."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.sagemaker.named_jobs import MAX_NAMES, build_base_name
from leeway.hooks.tuning.finished_trials import SUMMARIES, count_finished_trials, find_stopped_trials
from leeway.hooks.tuning.requests import (
    MAX_NAME_CHARS,
    MAX_PARENTS,
    TuningJobs,
    TuningTemplate,
    count_earlier_trials,
)

from pipelines.tuning.plan import PlanSpec

PLAN = PlanSpec(space={"eta": {"low": 0.1, "high": 0.3}}, strategy="random", trials=10, parallel=2, seed=5)
MACHINE = Machine("ml.m5.large", 1, 30, is_spot=True, max_run_s=60, max_wait_s=120)
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
NUMBERS = itertools.count(1)
TEMPLATE = TuningTemplate(TRAINING, MACHINE, PLAN, "x:(.*)", (), {})


def describe(number: int, finished: int = 0, template: TuningTemplate = TEMPLATE) -> dict[str, Any]:
    """Return SageMaker's description of an attempt."""
    return {
        **template.build_request(number=number),
        "HyperParameterTuningJobName": f"base-{number}",
        "ObjectiveStatusCounters": {"Succeeded": finished, "Pending": 0, "Failed": 1},
        "HyperParameterTuningJobStatus": "Stopped",
        SUMMARIES: [summarize("Completed", 0.5) for _ in range(finished)],
    }


def summarize(status: str, objective: float | None = None, **fields: Any) -> dict[str, Any]:
    """Return the entry of a trial in SageMaker's list."""
    metric = {} if objective is None else {"FinalHyperParameterTuningJobObjectiveMetric": {"Value": objective}}
    name = f"trial-{next(NUMBERS)}"
    return {"TrainingJobName": name, "TrainingJobStatus": status, "CreationTime": 0, **metric, **fields}


def with_plan(**changes: Any) -> TuningTemplate:
    """Return the template with another plan."""
    return replace(TEMPLATE, plan=PlanSpec(**{**PLAN.model_dump(), **changes}))


@pytest.mark.parametrize("parts", [("flights_tune", "manual__2013", "tune", -1), ("d" * 90, "r", "t" * 90, 98)])
def test_names_fit_into_those_of_tuning_jobs(parts: tuple[str, str, str, int]) -> None:
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


def test_hyperband_continues_without_a_warm_start() -> None:
    request = with_plan(strategy="hyperband").build_request([describe(1, finished=4)], 2)
    assert "WarmStartConfig" not in request
    assert request["HyperParameterTuningJobConfig"]["ResourceLimits"]["MaxNumberOfTrainingJobs"] == 6


def test_grid_continues_with_the_points_that_are_left() -> None:
    grid = with_plan(strategy="grid", space={"eta": [0.1, 0.2, 0.3], "depth": [1, 2]})
    job = describe(1, template=grid)
    points = [("0.1", "1", "Completed"), ("0.1", "2", "Failed"), ("0.2", "1", "Completed"), ("0.2", "2", "Stopped")]
    job[SUMMARIES] = [
        summarize(status, 0.5, TunedHyperParameters={"eta": eta, "depth": f'"{depth}"'})
        for eta, depth, status in points
    ]
    assert grid.count_trials_left([job]) == 4, "the failed and the stopped trial say nothing about their points"
    jobs, grids = [job], []
    while grid.count_points_left(jobs):
        request = grid.build_request(jobs, len(jobs) + 1)
        ranges = request["HyperParameterTuningJobConfig"]["ParameterRanges"]["CategoricalParameterRanges"]
        values = {item["Name"]: item["Values"] for item in ranges}
        grids.append(values)
        next_job = {**describe(len(jobs) + 1, template=grid), **request, "HyperParameterTuningJobStatus": "Completed"}
        next_job[SUMMARIES] = [
            summarize("Completed", TunedHyperParameters={"eta": eta, "depth": depth})
            for eta, depth in itertools.product(values["eta"], values["depth"])
        ]
        assert grid.has_same_search(next_job) and grid.has_same_grid(next_job, jobs)
        assert not grid.has_same_grid(job, [*jobs, next_job]), "an attempt with other points is another one"
        jobs.append(next_job)
    assert grids == [{"eta": ["0.1", "0.2", "0.3"], "depth": ["2"]}, {"eta": ["0.3"], "depth": ["1"]}]
    assert grid.count_trials_left(jobs) == 1, "a tuning job needs a point"
    assert not grid.has_same_search(describe(1, template=with_plan(strategy="grid", space={"eta": [0.5, 0.6]})))


def test_trials_that_a_limit_stopped_are_not_finished() -> None:
    """Hyperband starts a trial when it stops a poor one; a tuning job that is stopped starts none."""
    template = with_plan(strategy="hyperband")
    job = describe(1, template=template)
    poor = summarize("Stopped", 0.9, CreationTime=1, TrainingEndTime=4)
    stopped = summarize("Stopped", 0.4, CreationTime=5, TrainingEndTime=9)
    never_started = summarize("Stopped", CreationTime=5)
    job[SUMMARIES] = [summarize("Completed", 0.5, CreationTime=0), poor, stopped, never_started]
    names = {stopped["TrainingJobName"], never_started["TrainingJobName"]}
    assert find_stopped_trials(job, job[SUMMARIES]) == names
    assert count_finished_trials(job) == 2 and template.count_trials_left([job]) == 8
    job["HyperParameterTuningJobStatus"] = "Completed"
    assert find_stopped_trials(job, job[SUMMARIES]) == names, "it ended before all trials: at its longest time"
    job["HyperParameterTuningJobConfig"]["ResourceLimits"]["MaxNumberOfTrainingJobs"] = 4
    assert find_stopped_trials(job, job[SUMMARIES]) == set()
    # A search that stops no trial itself.
    job["HyperParameterTuningJobConfig"]["Strategy"] = "Random"
    assert find_stopped_trials(job, job[SUMMARIES]) == {*names, poor["TrainingJobName"]}


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
