"""Test what the strategies do with real trials: grid, Hyperband, early stopping, warm start, and equal seeds."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

ONE_STEP = """
import sys
print(f"loss={(float(sys.argv[sys.argv.index('--rate') + 1]) - 0.3) ** 2};")
"""
# Logs the value of --level at each step. A trial of level 9 waits after its steps for a stop.
LEVELS = """
import signal, sys, time
level = float(sys.argv[sys.argv.index("--level") + 1].split("-")[0])
for step in range(int(sys.argv[sys.argv.index("--steps") + 1])):
    print(f"loss={level};", flush=True)
if level == 9:
    time.sleep(600)
"""


def list_values(tuner: Any, name: str) -> list[dict[str, str]]:
    """Return the hyperparameters of the trials, in the order of their creation."""
    return [trial["TunedHyperParameters"] for trial in tuner.list_trials(name)]


def make_levels(*levels: str) -> dict[str, Any]:
    """Return options of a tuning job whose trials have these levels, in this order."""
    ranges = {"CategoricalParameterRanges": [{"Name": "level", "Values": list(levels)}]}
    return {"Strategy": "Grid", "ranges": ranges, "limits": {"MaxNumberOfTrainingJobs": len(levels)}}


@pytest.mark.soak
def test_equal_seeds_give_equal_trials(tuner: Any) -> None:
    limits = {"MaxNumberOfTrainingJobs": 3, "MaxParallelTrainingJobs": 1}
    for name, seed in (("seed-a", 7), ("seed-b", 7), ("seed-c", 8)):
        tuner.run(name, ONE_STEP, Strategy="Bayesian", RandomSeed=seed, limits=limits)
    assert list_values(tuner, "seed-a") == list_values(tuner, "seed-b") != list_values(tuner, "seed-c")


def test_grid_runs_each_combination_once(tuner: Any) -> None:
    ranges = {"CategoricalParameterRanges": [{"Name": name, "Values": ["1", "2"]} for name in ("rate", "depth")]}
    request = tuner.build_request("grid", ONE_STEP, Strategy="Grid", ranges=ranges)
    del request["HyperParameterTuningJobConfig"]["ResourceLimits"]["MaxNumberOfTrainingJobs"]
    tuner.sagemaker.create_hyper_parameter_tuning_job(**request)
    assert tuner.wait_for_end("grid")["HyperParameterTuningJobStatus"] == "Completed"
    values = [(trial["rate"], trial["depth"]) for trial in list_values(tuner, "grid")]
    assert values == [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")]


def test_early_stopping_stops_a_trial_that_is_worse_than_the_median(tuner: Any) -> None:
    options = make_levels("1", "2", "9", "0.5")
    options["limits"]["MaxParallelTrainingJobs"] = 1
    job = tuner.run("early", LEVELS, static={"steps": "3"}, TrainingJobEarlyStoppingType="Auto", **options)
    trials = tuner.list_trials("early")
    # The third is worse than the median of the others, 1.5. It would sleep for ten minutes.
    assert [trial["TrainingJobStatus"] for trial in trials][2:] == ["Stopped", "Completed"]
    assert trials[2]["ObjectiveStatus"] == "Succeeded"
    assert job["BestTrainingJob"]["TunedHyperParameters"] == {"level": "0.5"}
    assert job["TrainingJobStatusCounters"]["Stopped"] >= 1


def test_hyperband_stops_trials_at_a_rung_and_beyond_the_maximum(tuner: Any) -> None:
    # Each trial prints its steps, then waits: only Hyperband ends it. The order of the levels is the seed's.
    script = LEVELS.replace("if level == 9:", "if True:")
    ranges = {"CategoricalParameterRanges": [{"Name": "level", "Values": ["1", "2", "3", "4"]}]}
    bounds = {"HyperbandStrategyConfig": {"MinResource": 2, "MaxResource": 4}}
    limits = {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 4}
    options = {"Strategy": "Hyperband", "StrategyConfig": bounds, "ranges": ranges, "limits": limits}
    job = tuner.run("hyperband", script, static={"steps": "5"}, **options)
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    trials = {trial["TunedHyperParameters"]["level"]: trial for trial in tuner.list_trials("hyperband")}
    assert {trial["TrainingJobStatus"] for trial in trials.values()} == {"Stopped"}
    # The best one is never stopped at a rung. It ends beyond MaxResource, with a whole model.
    assert job["BestTrainingJob"] == trials["1"]
    assert job["ObjectiveStatusCounters"]["Succeeded"] == 4


def test_warm_start_knows_the_results_of_its_parent(tuner: Any, read_objective: Callable[..., Any]) -> None:
    parent = tuner.run("parent", ONE_STEP, static={"size": "1"}, limits={"MaxNumberOfTrainingJobs": 6})
    parents = {"ParentHyperParameterTuningJobs": [{"HyperParameterTuningJobName": "parent"}]}
    ranges = {"ContinuousParameterRanges": [{"Name": "rate", "MinValue": "0.9", "MaxValue": "1"}]}
    for name, kind in (("child", "IdenticalDataAndAlgorithm"), ("transfer", "TransferLearning")):
        request = {"WarmStartConfig": {**parents, "WarmStartType": kind}}
        options = {"static": {"size": "1"}, "ranges": ranges, "limits": {"MaxNumberOfTrainingJobs": 2}}
        tuner.create(name, ONE_STEP, Strategy="Bayesian", request=request, **options)
    child, transfer = tuner.wait_for_end("child"), tuner.wait_for_end("transfer")
    assert child["OverallBestTrainingJob"] == parent["BestTrainingJob"] != child["BestTrainingJob"]
    assert child["OverallBestTrainingJob"]["TuningJobName"] == "parent"
    assert "OverallBestTrainingJob" not in transfer and transfer["BestTrainingJob"]
    with pytest.raises(ClientError, match="The set of tunable plus static HyperParameter names is not the same"):
        tuner.create("other", ONE_STEP, request=request, static={"length": "1"})


def test_parent_that_runs_or_does_not_exist_is_refused(tuner: Any) -> None:
    tuner.create("runs", "import time; time.sleep(600)")
    for name, message in (("runs", "runs is in status InProgress"), ("unknown", "can't find a tuning job")):
        config = {
            "ParentHyperParameterTuningJobs": [{"HyperParameterTuningJobName": name}],
            "WarmStartType": "TransferLearning",
        }
        with pytest.raises(ClientError, match=message):
            tuner.create("orphan", ONE_STEP, request={"WarmStartConfig": config})
    tuner.sagemaker.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="runs")
    assert tuner.wait_for_end("runs")["HyperParameterTuningJobStatus"] == "Stopped"
