"""Build the request of a tuning job, and compare it with a tuning job that exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.hooks.sagemaker.description import get_job_name
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.sagemaker.named_jobs import MAX_NAMES, NamedJobs, contains
from leeway.hooks.sagemaker.request_checks import merge_config
from leeway.hooks.tuning.finished_trials import count_finished_trials, list_tried_points
from leeway.hooks.tuning.grid import Point, count_points_left, find_next_grid
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.sagemaker_job import METRIC_NAME, build_tuning_config

MAX_NAME_CHARS = 32
"""SageMaker's limit of the length of a tuning job's name."""
MAX_PARENTS = 5
"""SageMaker's limit of the number of tuning jobs from whose trials another tuning job starts."""
WARM_START_STRATEGIES = ("bayesian", "random")
"""Strategies with which SageMaker accepts a warm start. Source: SageMaker Developer Guide, "Run a Warm Start
Hyperparameter Tuning Job"."""
SEARCH_MEMBERS = (
    *("Strategy", "StrategyConfig", "HyperParameterTuningJobObjective", "ParameterRanges"),
    *("TrainingJobEarlyStoppingType", "TuningJobCompletionCriteria"),
)
"""Parts of HyperParameterTuningJobConfig that decide what the trials are; the limits are not among them."""
TRIAL_STATUSES = ("Completed", "InProgress", "NonRetryableError", "RetryableError", "Stopped")
"""Counters of TrainingJobStatusCounters that together count all trials of a tuning job."""
OBJECTIVE_MEMBERS = ("AlgorithmSpecification", "InputDataConfig")
"""Parts of TrainingJobDefinition, apart from the hyperparameters, that determine the objective of a trial."""


class TuningJobs(NamedJobs):
    """The tuning jobs of one task."""

    kind = "tuning"
    max_base_chars = MAX_NAME_CHARS - len(f"-{MAX_NAMES}")


@dataclass(frozen=True)
class TuningTemplate:
    """The parts of a request to CreateHyperParameterTuningJob."""

    training: Mapping[str, Any]
    """The request to CreateTrainingJob for a trial, without a name, a machine and the searched hyperparameters."""
    machine: Machine
    """The machine of a trial."""
    plan: PlanSpec
    """The search."""
    metric_regex: str
    """Regular expression of the objective in the log of the script."""
    parents: Sequence[str]
    """Names of other tasks' tuning jobs from whose trials the search starts."""
    config: Mapping[str, Any]
    """The operator's `config`: more fields of the request."""

    def build_request(self, earlier_jobs: Sequence[Mapping[str, Any]] = (), number: int = 1) -> dict[str, Any]:
        """Return the request of an attempt, without a name.

        Args:
            earlier_jobs: the task's earlier tuning jobs of the same search with their trials, oldest first. Their
                trials that have an objective are not run again, unless a limit stopped them.
            number: number of the attempt, from 1. It changes the seed: without a warm start, equal seeds
                would give equal trials.
        """
        training, plan = self.training, self.plan
        trials = self.count_trials_left(earlier_jobs)
        if plan.strategy == "grid":
            plan = plan.model_copy(update={"space": find_next_grid(plan.space, self._list_tried_points(earlier_jobs))})
            trials = plan.count_trials()
        hyperparameters = training["HyperParameters"]
        request = {
            "HyperParameterTuningJobConfig": build_tuning_config(plan, hyperparameters, trials, plan.seed + number - 1),
            "TrainingJobDefinition": self._build_definition(),
            "Tags": training["Tags"],
        }
        return merge_config(request, self.config) | self._build_warm_start(earlier_jobs)

    def count_trials_left(self, earlier_jobs: Sequence[Mapping[str, Any]]) -> int:
        """Return the number of trials that are left, at least 1. Of a grid, the next attempt may run only a part."""
        if self.plan.strategy == "grid":
            return max(1, self.count_points_left(earlier_jobs))
        return max(1, self.plan.count_trials() - sum(map(count_finished_trials, earlier_jobs)))

    def count_points_left(self, jobs: Sequence[Mapping[str, Any]]) -> int:
        """Return the number of points of the grid that no tuning job has tried; `jobs` come with their trials."""
        return count_points_left(self.plan.space, self._list_tried_points(jobs))

    def has_same_grid(self, job: Mapping[str, Any], earlier_jobs: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether a tuning job tries the same points as a new attempt after `earlier_jobs` would try."""
        return _select_search(job) == _select_search(self.build_request(earlier_jobs))

    def _list_tried_points(self, jobs: Sequence[Mapping[str, Any]]) -> set[Point]:
        return {point for job in jobs for point in list_tried_points(job, list(self.plan.space))}

    def has_same_search(self, job: Mapping[str, Any]) -> bool:
        """Return whether a described tuning job has the trials of this search; the limits may be others."""
        request = self.build_request()
        definition, own_definition = job.get("TrainingJobDefinition", {}), request["TrainingJobDefinition"]
        # SageMaker adds settings of its own, such as _tuning_objective_metric.
        static_values = {
            name: value
            for name, value in definition.get("StaticHyperParameters", {}).items()
            if not name.startswith("_")
        }
        return (
            static_values == own_definition["StaticHyperParameters"]
            and all(contains(definition.get(name), own_definition[name]) for name in OBJECTIVE_MEMBERS)
            and _get_instance_count(definition) == _get_instance_count(own_definition)
            and self._has_same_space(job, request)
            and job["HyperParameterTuningJobConfig"].get("RandomSeed") == self.plan.seed + get_number(job) - 1
            and self._has_same_parents(job, request)
        )

    def _has_same_space(self, job: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
        """Return whether a tuning job has the search of the request. A grid may have only some of the values."""
        search, own_search = _select_search(job), _select_search(request)
        if self.plan.strategy != "grid":
            return search == own_search
        grid, own_grid = (
            _list_categories(search.pop("ParameterRanges")),
            _list_categories(own_search.pop("ParameterRanges")),
        )
        has_own_values = grid.keys() == own_grid.keys() and all(grid[name] <= own_grid[name] for name in grid)
        return search == own_search and has_own_values

    def _has_same_parents(self, job: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
        """Return whether a tuning job learns from the same tuning jobs of other tasks as the request of this search.

        A later attempt of the task has the task's earlier attempts as parents, too. Because SageMaker limits the number
        of parents, these attempts may replace some of the other parents.
        """
        base, names = _get_base_name(get_job_name(job)), _list_parents(job)
        other_names = {name for name in names if _get_base_name(name) != base}
        expected_names = set(_list_parents(request))
        return other_names == expected_names or (len(names) == MAX_PARENTS and other_names < expected_names)

    def _build_definition(self) -> dict[str, Any]:
        """Return TrainingJobDefinition."""
        names = ("InputDataConfig", "RoleArn", "OutputDataConfig", "CheckpointConfig", "Environment")
        algorithm = self.training["AlgorithmSpecification"]
        return {
            **{name: self.training[name] for name in names},
            **self.machine.build_request(),
            "AlgorithmSpecification": {
                **algorithm,
                "MetricDefinitions": [{"Name": METRIC_NAME, "Regex": self.metric_regex}],
            },
            "StaticHyperParameters": self.training["HyperParameters"],
        }

    def _build_warm_start(self, earlier_jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return WarmStartConfig; empty if the search starts from no tuning job, or its strategy has none."""
        if self.plan.strategy not in WARM_START_STRATEGIES:
            return {}
        own_jobs = [get_job_name(job) for job in earlier_jobs if _has_objectives(job)]
        names = [*self.parents, *own_jobs][-MAX_PARENTS:]
        if not names:
            return {}
        kind = "TransferLearning" if self.parents else "IdenticalDataAndAlgorithm"
        parents = [{"HyperParameterTuningJobName": name} for name in names]
        return {"WarmStartConfig": {"ParentHyperParameterTuningJobs": parents, "WarmStartType": kind}}


def get_number(job: Mapping[str, Any]) -> int:
    """Return the number of a task's tuning job, from 1: the end of its name."""
    return int(get_job_name(job).rpartition("-")[2])


def _get_base_name(name: str) -> str:
    """Return the name of a task's tuning jobs without their number."""
    return name.rpartition("-")[0]


def _list_parents(job: Mapping[str, Any]) -> list[str]:
    """Return the names of the tuning jobs that a described or requested tuning job learns from."""
    parents = job.get("WarmStartConfig", {}).get("ParentHyperParameterTuningJobs", [])
    return [str(parent["HyperParameterTuningJobName"]) for parent in parents]


def count_earlier_trials(
    parents: Sequence[str], describe: Callable[[str], Mapping[str, Any] | None], own_jobs: Sequence[str]
) -> int:
    """Return how many trials ran in the tuning jobs from which a search learned, directly or through other tuning jobs.

    Args:
        parents: names of the tuning jobs from which the search learned directly. A job that does not exist any more is
            left out.
        describe: returns SageMaker's description of a tuning job; None if there is none.
        own_jobs: names of the tuning jobs of the search itself, which are not counted.
    """
    visited_names, names_left, count = set(own_jobs), list(parents), 0
    while names_left:
        name = names_left.pop()
        if name in visited_names:
            continue
        visited_names.add(name)
        if (job := describe(name)) is not None:
            count += sum(job.get("TrainingJobStatusCounters", {}).get(status, 0) for status in TRIAL_STATUSES)
            names_left += _list_parents(job)
    return count


def _select_search(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts `SEARCH_MEMBERS` of a described or requested tuning job, without empty lists of ranges."""
    config = job.get("HyperParameterTuningJobConfig", {})
    search = {name: config[name] for name in SEARCH_MEMBERS if name in config}
    ranges = search.get("ParameterRanges", {})
    return {**search, "ParameterRanges": {kind: items for kind, items in ranges.items() if items}}


def _list_categories(ranges: Mapping[str, Any]) -> dict[str, set[str]]:
    return {item["Name"]: set(item["Values"]) for item in ranges.get("CategoricalParameterRanges", [])}


def _has_objectives(job: Mapping[str, Any]) -> bool:
    """Return whether a trial of a tuning job has an objective, so that a later tuning job can learn from it."""
    return bool(job.get("ObjectiveStatusCounters", {}).get("Succeeded", 0))


def _get_instance_count(definition: Mapping[str, Any]) -> Any:
    return definition.get("ResourceConfig", {}).get("InstanceCount")
