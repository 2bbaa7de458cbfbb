"""Test the proposals and the rungs of each strategy."""

from typing import Any

import optuna
import pytest
from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner

from pipelines.tuning.distributions import build_distributions
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.strategies import build_grid_point, build_pruner, build_sampler, list_rungs

SPACE: dict[str, Any] = {"x": {"low": 0.0, "high": 1.0}}


def propose(plan: PlanSpec, study: optuna.Study, number: int) -> float:
    study.sampler = build_sampler(plan, number)
    trial = study.ask(build_distributions(plan.space))
    study.tell(trial, trial.params["x"])
    return float(trial.params["x"])


@pytest.mark.parametrize("strategy", ["random", "bayesian"])
def test_proposals_are_the_same_after_a_restart(strategy: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    plan = PlanSpec(space=SPACE, strategy=strategy)
    whole, restarted = optuna.create_study(), optuna.create_study()
    values = [propose(plan, whole, number) for number in range(14)]
    first_values = [propose(plan, restarted, number) for number in range(6)]
    rest = [propose(plan, restarted, number) for number in range(6, 14)]  # by new samplers, as all are
    assert [*first_values, *rest] == values
    assert len(set(values)) == 14, "no value is proposed again"
    other_plan = PlanSpec(space=SPACE, strategy=strategy, seed=14)
    assert propose(other_plan, optuna.create_study(), 0) != values[0]


def test_the_points_of_a_grid_are_all_and_each_once() -> None:
    plan = PlanSpec(space={"a": [1, 2], "b": ["x", "y", "z"]}, strategy="grid")
    points = [build_grid_point(plan, number) for number in range(plan.count_trials())]
    assert points[:4] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "z"}, {"a": 2, "b": "x"}]
    assert len({tuple(point.values()) for point in points}) == 6


def test_the_rungs() -> None:
    hyperband, median, plain = (
        PlanSpec(space=SPACE, strategy="hyperband"),
        PlanSpec(space=SPACE, early_stopping="median"),
        PlanSpec(space=SPACE),
    )
    assert [list_rungs(hyperband, rounds) for rounds in (400, 9, 1)] == [[44, 132], [1, 3], []]
    assert list_rungs(median, 40) == list(range(2, 40, 2))
    assert list_rungs(median, 3) == [1, 2, 3]
    assert list_rungs(plain, 400) == []
    kinds = [type(build_pruner(plan, 400)) for plan in (hyperband, median, plain)]
    assert kinds == [HyperbandPruner, MedianPruner, NopPruner]
