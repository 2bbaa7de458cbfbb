"""Test the proposals, and the trials that Hyperband stops."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from drydock.tuning.plan import TuningPlan
from drydock.tuning.sampling import Observation, is_stopped_by_hyperband, list_rungs, propose

RANGES = {
    "ContinuousParameterRanges": [{"Name": "rate", "MinValue": "0", "MaxValue": "1"}],
    "IntegerParameterRanges": [{"Name": "depth", "MinValue": "1", "MaxValue": "30"}],
    "CategoricalParameterRanges": [{"Name": "kind", "Values": ["a", "b"]}],
}


def complete(values: dict[str, str]) -> Observation:
    """Return the observation of a trial whose best rate is 0.3."""
    return Observation(values, "complete", (float(values["rate"]) - 0.3) ** 2)


def run(plan: TuningPlan, seed: int, count: int) -> list[dict[str, str]]:
    """Propose trials one after the other, each with the results of all before."""
    observations: list[Observation] = []
    for number in range(count):
        observations.append(complete(propose(plan, seed, number, observations)))
    return [dict(item.values) for item in observations]


@pytest.mark.parametrize("strategy", ["Bayesian", "Random", "Hyperband"])
def test_equal_seeds_and_results_give_equal_proposals(make_tuning_request: Any, strategy: str) -> None:
    plan = TuningPlan(make_tuning_request(Strategy=strategy, ParameterRanges=RANGES))
    trials = run(plan, 7, 14)
    assert trials == run(plan, 7, 14) and trials != run(plan, 8, 14)
    for values in trials:
        assert 0 <= float(values["rate"]) <= 1 and 1 <= int(values["depth"]) <= 30 and values["kind"] in ("a", "b")
    assert len({values["rate"] for values in trials}) == 14


def test_bayesian_search_uses_the_results_and_random_search_does_not(make_tuning_request: Any) -> None:
    known = [complete({"rate": str(number / 20), "depth": "5", "kind": "a"}) for number in range(20)]
    bayesian = TuningPlan(make_tuning_request(ParameterRanges=RANGES))
    guided = [float(propose(bayesian, 7, number, known)["rate"]) for number in range(10)]
    assert sum(abs(rate - 0.3) < 0.15 for rate in guided) >= 6
    random_search = TuningPlan(make_tuning_request(Strategy="Random", ParameterRanges=RANGES))
    assert propose(random_search, 7, 3, known) == propose(random_search, 7, 3, [])


def test_parallel_trials_get_different_values(make_tuning_request: Any) -> None:
    plan = TuningPlan(make_tuning_request(ParameterRanges=RANGES))
    observations = [complete(values) for values in run(plan, 7, 12)]
    for number in range(12, 16):
        observations.append(Observation(propose(plan, 7, number, observations), "running"))
    assert len({item.values["rate"] for item in observations}) == 16


def test_each_combination_of_a_small_space_is_proposed_once(make_tuning_request: Any) -> None:
    ranges = {
        "IntegerParameterRanges": [{"Name": "depth", "MinValue": "1", "MaxValue": "5"}],
        "CategoricalParameterRanges": [{"Name": "kind", "Values": ["a", "b"]}],
    }
    for strategy in ("Bayesian", "Random"):
        plan, observations = TuningPlan(make_tuning_request(Strategy=strategy, ParameterRanges=ranges)), []
        for number in range(10):
            observations.append(Observation(propose(plan, 7, number, observations), "complete", 1.0))
        assert len({(item.values["depth"], item.values["kind"]) for item in observations}) == 10


def test_results_of_parents_outside_the_ranges_are_ignored(make_tuning_request: Any) -> None:
    plan = TuningPlan(make_tuning_request(ParameterRanges=RANGES))
    parents = [Observation({"rate": "7", "depth": "1", "kind": "a"}, "complete", 0.0), Observation({}, "complete", 0.0)]
    assert propose(plan, 7, 0, parents) == propose(plan, 7, 0, [])


@pytest.mark.parametrize(
    ("scale", "low", "high"), [("Logarithmic", "0.0001", "1"), ("ReverseLogarithmic", "0", "0.9999")]
)
def test_logarithmic_scales_search_one_end_more_closely(
    make_tuning_request: Any, scale: str, low: str, high: str
) -> None:
    ranges = [{"Name": "rate", "MinValue": low, "MaxValue": high, "ScalingType": scale}]
    plan = TuningPlan(make_tuning_request(Strategy="Random", ParameterRanges={"ContinuousParameterRanges": ranges}))
    rates = sorted(float(propose(plan, 7, number, [])["rate"]) for number in range(40))
    assert float(low) <= rates[0] and rates[-1] <= float(high)
    median = rates[20] if scale == "Logarithmic" else 1 - rates[20]
    assert 0.001 < median < 0.1  # 0.01 is in the middle of the scale; a linear one has 0.5


def test_rungs_triple_up_to_the_maximum() -> None:
    assert list_rungs(1, 27) == [1, 3, 9] and list_rungs(2, 5) == [2]


def test_hyperband_continues_only_the_best_third_at_a_rung(make_tuning_request: Any) -> None:
    # One bracket only: 3 is not a rung of a second one.
    bounds = {"HyperbandStrategyConfig": {"MinResource": 2, "MaxResource": 5}}
    plan = TuningPlan(make_tuning_request(Strategy="Hyperband", ParameterRanges=RANGES, StrategyConfig=bounds))
    values = {"rate": "0.5", "depth": "1", "kind": "a"}
    trials = [Observation(values, "running", series=[9.0, loss, loss]) for loss in (1.0, 2.0, 3.0, 4.0)]
    assert [is_stopped_by_hyperband(plan, number, trials, 2) for number in range(4)] == [False, True, True, True]
    # Steps that are no rung decide nothing, and neither does a trial alone.
    assert not is_stopped_by_hyperband(plan, 3, trials, 1) and not is_stopped_by_hyperband(plan, 3, trials, 3)
    assert not is_stopped_by_hyperband(plan, 0, trials[3:], 2)
    nan = Observation(values, "running", series=[1.0, None])
    assert is_stopped_by_hyperband(plan, 4, [*trials, nan], 2)


def test_server_starts_without_optuna() -> None:
    program = "import sys, drydock.__main__, drydock.api.server; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_maximized_objective_is_searched_upwards(make_tuning_request: Callable[..., Any]) -> None:
    objective = {"Type": "Maximize", "MetricName": "loss"}
    plan = TuningPlan(make_tuning_request(ParameterRanges=RANGES, HyperParameterTuningJobObjective=objective))
    known = [
        Observation({"rate": str(number / 20), "depth": "5", "kind": "a"}, "complete", number / 20)
        for number in range(20)
    ]
    rates = [float(propose(plan, 7, number, known)["rate"]) for number in range(10)]
    assert sum(rate > 0.7 for rate in rates) >= 6
