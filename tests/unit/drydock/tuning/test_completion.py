"""Test which trial is the best one, and when and how a tuning job ends."""

from collections.abc import Callable
from typing import Any

import pytest

from drydock.jobs.states import Status
from drydock.tuning.completion import choose_final_ending, count_trials_without_improvement, find_best, find_ending
from drydock.tuning.plan import TuningPlan
from drydock.tuning.records import Ending, StopCause
from drydock.tuning.trial import Trial

MakeTrial = Callable[..., Trial]
COMPLETED = Ending(Status.COMPLETED)


@pytest.fixture
def plan(make_tuning_request: Callable[..., dict[str, Any]]) -> TuningPlan:
    """Return the plan of a tuning job that minimizes."""
    return TuningPlan(make_tuning_request())


def test_best_trial_has_completed_with_a_finite_last_value(plan: TuningPlan, make_trial: MakeTrial) -> None:
    best = make_trial(9.0, 2.0)
    others = [
        make_trial(3.0),
        make_trial(1.0, None),
        make_trial(),
        make_trial(0.5, status=Status.FAILED),
        make_trial(0.5, status=Status.STOPPED, cause=StopCause.PRUNED),
        make_trial(0.5, status=Status.STOPPED),
        make_trial(0.5, status=Status.IN_PROGRESS),
    ]
    assert find_best([*others, best], plan) is best and find_best(others[1:], plan) is None
    whole = make_trial(1.5, status=Status.STOPPED, cause=StopCause.MAX_RESOURCE)
    assert find_best([*others, best, whole], plan) is whole


def test_maximized_objective_has_the_largest_value(make_tuning_request: Any, make_trial: MakeTrial) -> None:
    objective = {"Type": "Maximize", "MetricName": "loss"}
    plan = TuningPlan(make_tuning_request(HyperParameterTuningJobObjective=objective))
    low, high = make_trial(1.0), make_trial(2.0)
    assert find_best([low, high], plan) is high and find_best([], plan) is None


@pytest.mark.parametrize(("target", "expected"), [(1.0, COMPLETED), (1.5, COMPLETED), (0.9, None)])
def test_target_is_reached_by_an_equal_or_better_value(
    make_tuning_request: Any, make_trial: MakeTrial, target: float, expected: Ending | None
) -> None:
    criteria = {"TargetObjectiveMetricValue": target}
    plan = TuningPlan(make_tuning_request(TuningJobCompletionCriteria=criteria))
    assert find_ending([make_trial(1.0), make_trial(0.1, status=Status.IN_PROGRESS)], plan, 1) == expected


def test_runtime_limit_ends_the_tuning_job(make_tuning_request: Any, make_trial: MakeTrial) -> None:
    plan = TuningPlan(make_tuning_request(limits={"MaxRuntimeInSeconds": 120}))
    assert find_ending([], plan, 119.0) is None and find_ending([make_trial(1.0)], plan, 120.0) == COMPLETED


def test_trials_that_improve_by_less_than_one_percent_are_counted(
    make_tuning_request: Any, make_trial: MakeTrial
) -> None:
    criteria = {"BestObjectiveNotImproving": {"MaxNumberOfTrainingJobsNotImproving": 3}}
    plan = TuningPlan(make_tuning_request(TuningJobCompletionCriteria=criteria))
    losses = [100.0, 99.5, 98.5, 98.4, 120.0, 98.0]  # 98.5 is 1.5% better than 100
    trials = [make_trial(loss, end_s=second) for second, loss in enumerate(losses)]
    assert [count_trials_without_improvement(trials[:count], plan) for count in range(1, 7)] == [0, 1, 0, 1, 2, 3]
    assert find_ending(trials[:5], plan, 1) is None and find_ending(trials, plan, 1) == COMPLETED
    # The order is that of the ends, not that of the list; trials without an objective do not count.
    assert count_trials_without_improvement([make_trial(), *reversed(trials)], plan) == 3


def test_five_trials_without_success_fail_the_tuning_job(plan: TuningPlan, make_trial: MakeTrial) -> None:
    failed = [make_trial(status=Status.FAILED) for _ in range(5)]
    ending = find_ending(failed, plan, 1)
    assert ending and ending.status is Status.FAILED
    assert (ending.reason or "").startswith("No training job succeeded after 5 attempts.")
    silent = [make_trial() for _ in range(5)]
    ending = find_ending(silent, plan, 1)
    assert ending and (ending.reason or "").startswith("No objective metrics found after running 5 training jobs.")
    assert find_ending(failed[:4], plan, 1) is None
    assert find_ending([*silent, make_trial(1.0, status=Status.IN_PROGRESS)], plan, 1) is None


def test_values_that_are_not_finite_are_no_objective(plan: TuningPlan, make_trial: MakeTrial) -> None:
    undefined = [make_trial(0.5, None) for _ in range(5)]
    running = make_trial(None, status=Status.IN_PROGRESS)
    ending = find_ending([*undefined, running], plan, 1)
    assert ending and (ending.reason or "").startswith("No objective metrics found after running 5 training jobs.")
    assert find_ending([*undefined[:4], running], plan, 1) is None
    # A trial whose newest value is finite may still have an objective, even after an undefined one.
    for values in ((0.5,), (None, 0.5)):
        assert find_ending([*undefined, make_trial(*values, status=Status.IN_PROGRESS)], plan, 1) is None
        assert find_ending([*undefined, make_trial(*values)], plan, 1) is None


def test_final_status_depends_on_the_results_unless_it_was_decided(make_trial: MakeTrial) -> None:
    good, bad, silent = make_trial(1.0), make_trial(status=Status.FAILED), make_trial()
    assert choose_final_ending([good, bad], None) == COMPLETED
    failed = choose_final_ending([bad], None)
    assert failed.status is Status.FAILED and (failed.reason or "").startswith("All training jobs failed.")
    assert (choose_final_ending([bad, silent], None).reason or "").startswith(
        "No objective metrics found after running 2"
    )
    assert choose_final_ending([bad], Ending(Status.STOPPED)) == Ending(Status.STOPPED)
    assert choose_final_ending([bad], COMPLETED).status is Status.FAILED
