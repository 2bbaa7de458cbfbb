"""Test tuning jobs whose trials really run: their states, results, lists and tags, and how they fail and stop."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

PARABOLA = """
import argparse
parser = argparse.ArgumentParser()
for name in ("rate", "depth", "kind", "size"):
    parser.add_argument(f"--{name}")
values = parser.parse_args()
print(vars(values))
print("loss=1.0;")
print(f"loss={(float(values.rate) - 0.3) ** 2};")
"""
RANGES = {
    "ContinuousParameterRanges": [{"Name": "rate", "MinValue": "0", "MaxValue": "1"}],
    "IntegerParameterRanges": [{"Name": "depth", "MinValue": "1", "MaxValue": "100", "ScalingType": "Logarithmic"}],
    "CategoricalParameterRanges": [{"Name": "kind", "Values": ["a", "b"]}],
}


@pytest.fixture(scope="module")
def job(tuner: Any) -> dict[str, Any]:
    """Return a tuning job that has ended."""
    tags = {"Tags": [{"Key": "team", "Value": "blue"}]}
    limits = {"MaxNumberOfTrainingJobs": 6}
    options = {"Strategy": "Bayesian", "ranges": RANGES, "limits": limits, "static": {"size": "5"}, "request": tags}
    return dict(tuner.run("parabola", PARABOLA, **options))


def test_tuning_job_finds_its_best_trial(job: dict[str, Any], tuner: Any, read_objective: Callable[..., Any]) -> None:
    assert job["HyperParameterTuningJobStatus"] == "Completed" and "FailureReason" not in job
    assert job["TrainingJobStatusCounters"] == {
        "Completed": 6, "InProgress": 0, "RetryableError": 0, "NonRetryableError": 0, "Stopped": 0,
    }  # fmt: skip
    assert job["ObjectiveStatusCounters"] == {"Succeeded": 6, "Pending": 0, "Failed": 0}
    trials = tuner.list_trials("parabola")
    best = min(trials, key=read_objective)
    assert job["BestTrainingJob"] == best and best["ObjectiveStatus"] == "Succeeded"
    assert best["TuningJobName"] == "parabola" and best["TunedHyperParameters"].keys() == {"rate", "depth", "kind"}
    metric = best["FinalHyperParameterTuningJobObjectiveMetric"]
    assert metric["Value"] == pytest.approx((float(best["TunedHyperParameters"]["rate"]) - 0.3) ** 2, rel=1e-6)
    assert (metric["Type"], metric["MetricName"]) == ("Minimize", "loss")
    assert "OverallBestTrainingJob" not in job
    assert job["HyperParameterTuningEndTime"] >= max(trial["TrainingEndTime"] for trial in trials)
    assert job["ConsumedResources"]["RuntimeInSeconds"] > 0
    assert job["TrainingJobDefinition"]["StaticHyperParameters"]["size"] == "5"


def test_trial_is_a_training_job(job: dict[str, Any], tuner: Any, drydock: Any) -> None:
    trial = tuner.list_trials("parabola")[0]
    assert (
        trial["TrainingJobName"].startswith("parabola-001-")
        and len(trial["TrainingJobName"]) == len("parabola-001-") + 8
    )
    training_job = drydock.describe_job(trial["TrainingJobName"])
    assert training_job["TuningJobArn"] == job["HyperParameterTuningJobArn"]
    assert training_job["TrainingJobStatus"] == "Completed"
    assert [item["MetricName"] for item in training_job["FinalMetricDataList"]] == ["loss"]
    expected_values = {"_tuning_objective_metric": "loss", "size": "5", **trial["TunedHyperParameters"]}
    assert training_job["HyperParameters"].items() >= expected_values.items()
    # The script gets the hyperparameters, but not the setting of the toolkit: argparse would refuse it.
    assert "'size': '5'" in drydock.read_log(trial["TrainingJobName"])[0]


def test_training_job_without_a_tuning_job_names_none(drydock: Any) -> None:
    drydock.run_job("alone", "print('loss=1;')")
    assert "TuningJobArn" not in drydock.describe_job("alone")


def test_lists_are_sorted_filtered_and_split(job: dict[str, Any], tuner: Any) -> None:
    by_objective = tuner.list_trials("parabola", SortBy="FinalObjectiveMetricValue", SortOrder="Descending")
    values = [trial["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] for trial in by_objective]
    assert values == sorted(values, reverse=True) and len(values) == 6
    pages = tuner.sagemaker.get_paginator("list_training_jobs_for_hyper_parameter_tuning_job").paginate(
        HyperParameterTuningJobName="parabola", MaxResults=4
    )
    names = [[trial["TrainingJobName"] for trial in page["TrainingJobSummaries"]] for page in pages]
    assert [len(page) for page in names] == [4, 2] and [*names[0], *names[1]] == sorted([*names[0], *names[1]])
    assert tuner.list_trials("parabola", StatusEquals="Failed") == []
    response = tuner.sagemaker.list_hyper_parameter_tuning_jobs(NameContains="parab", StatusEquals="Completed")
    (summary,) = response["HyperParameterTuningJobSummaries"]
    assert summary["Strategy"] == "Bayesian" and summary["ObjectiveStatusCounters"]["Succeeded"] == 6
    assert not tuner.sagemaker.list_hyper_parameter_tuning_jobs(StatusEquals="Failed", NameContains="parabola")[
        "HyperParameterTuningJobSummaries"
    ]


def test_tags_are_those_of_the_trials_too(job: dict[str, Any], tuner: Any, drydock: Any) -> None:
    arn, sagemaker = job["HyperParameterTuningJobArn"], tuner.sagemaker
    trial_arn = tuner.list_trials("parabola")[0]["TrainingJobArn"]
    assert sagemaker.list_tags(ResourceArn=trial_arn)["Tags"] == [{"Key": "team", "Value": "blue"}]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "more", "Value": "1"}])
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "more", "Value": "1"}]


def test_name_is_used_once_and_unknown_names_are_refused(job: dict[str, Any], tuner: Any) -> None:
    with pytest.raises(tuner.sagemaker.exceptions.ResourceInUse, match="with the name, PARABOLA, already exists"):
        tuner.create("PARABOLA", PARABOLA)
    for operation in ("describe", "stop", "delete"):
        with pytest.raises(ClientError, match=r"\(ResourceNotFound\).* can't find a tuning job called unknown"):
            getattr(tuner.sagemaker, f"{operation}_hyper_parameter_tuning_job")(HyperParameterTuningJobName="unknown")
    with pytest.raises(tuner.sagemaker.exceptions.ResourceNotFound):
        tuner.list_trials("unknown")
    with pytest.raises(ClientError, match="because the hyperparameter tuning job is in status Completed"):
        tuner.sagemaker.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="parabola")


def test_trial_without_a_finite_objective_is_never_the_best(tuner: Any, read_objective: Callable[..., Any]) -> None:
    script = """
import sys
kind = sys.argv[sys.argv.index("--kind") + 1]
print("loss=0.5;")
print({"nan": "loss=nan;", "fine": "loss=0.75;", "fails": "loss=0.1;"}[kind])
sys.exit(kind == "fails")
"""
    ranges = {"CategoricalParameterRanges": [{"Name": "kind", "Values": ["nan", "fine", "fails"]}]}
    job = tuner.run("odd", script, Strategy="Grid", ranges=ranges, limits={"MaxNumberOfTrainingJobs": 3})
    trials = {trial["TunedHyperParameters"]["kind"]: trial for trial in tuner.list_trials("odd")}
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    assert job["BestTrainingJob"] == trials["fine"] and read_objective(trials["fine"]) == 0.75
    assert trials["nan"]["TrainingJobStatus"] == "Completed" and read_objective(trials["nan"]) is None
    assert [trials[kind]["ObjectiveStatus"] for kind in ("nan", "fine", "fails")] == ["Failed", "Succeeded", "Failed"]
    assert "ExitCode 1" in trials["fails"]["FailureReason"] and read_objective(trials["fails"]) is None
    assert job["ObjectiveStatusCounters"] == {"Succeeded": 1, "Pending": 0, "Failed": 2}
    assert job["TrainingJobStatusCounters"]["NonRetryableError"] == 1
    listed = tuner.list_trials("odd", SortBy="FinalObjectiveMetricValue")
    assert [trial["TunedHyperParameters"]["kind"] for trial in listed] == ["fine"]


def test_objective_that_the_log_never_shows_fails_the_tuning_job(tuner: Any) -> None:
    job = tuner.run("silent", "print('accuracy=1')", limits={"MaxNumberOfTrainingJobs": 20})
    assert job["HyperParameterTuningJobStatus"] == "Failed"
    assert re.match(r"No objective metrics found after running [56] training jobs\.", job["FailureReason"])
    assert len(tuner.list_trials("silent")) <= 6 and "BestTrainingJob" not in job


def test_objective_that_is_never_finite_fails_the_tuning_job(tuner: Any) -> None:
    script = "print('loss=0.5;'); print('loss=nan;')"
    job = tuner.run("undefined", script, limits={"MaxNumberOfTrainingJobs": 12})
    assert job["HyperParameterTuningJobStatus"] == "Failed"
    assert re.match(r"No objective metrics found after running [56] training jobs\.", job["FailureReason"])
    assert len(tuner.list_trials("undefined")) <= 6 and "BestTrainingJob" not in job


def test_tuning_job_whose_trials_all_fail_is_failed(tuner: Any) -> None:
    job = tuner.run("broken", "raise SystemExit(3)", limits={"MaxNumberOfTrainingJobs": 2})
    assert job["HyperParameterTuningJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("All training jobs failed.")
    assert job["TrainingJobStatusCounters"]["NonRetryableError"] == 2


ENDLESS = "import time; print('loss=0.5;', flush=True); time.sleep(600)"


def test_stop_ends_the_trials_and_delete_needs_an_end(tuner: Any) -> None:
    tuner.create("endless", ENDLESS)
    tuner.drydock.wait_until("the trials", lambda: len(tuner.list_trials("endless")) == 2)
    counters = tuner.describe("endless")["ObjectiveStatusCounters"]
    assert counters == {"Succeeded": 0, "Pending": 2, "Failed": 0}
    with pytest.raises(ClientError, match="in status InProgress: stop it first"):
        tuner.sagemaker.delete_hyper_parameter_tuning_job(HyperParameterTuningJobName="endless")
    tuner.sagemaker.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="endless")
    assert tuner.describe("endless")["HyperParameterTuningJobStatus"] in ("Stopping", "Stopped")
    job = tuner.wait_for_end("endless")
    assert job["HyperParameterTuningJobStatus"] == "Stopped" and "FailureReason" not in job
    trials = tuner.list_trials("endless")
    assert [trial["TrainingJobStatus"] for trial in trials] == ["Stopped", "Stopped"]
    tuner.sagemaker.delete_hyper_parameter_tuning_job(HyperParameterTuningJobName="endless")
    with pytest.raises(tuner.sagemaker.exceptions.ResourceNotFound):
        tuner.describe("endless")
    assert tuner.drydock.describe_job(trials[0]["TrainingJobName"])["TrainingJobStatus"] == "Stopped"
    tuner.create("endless", PARABOLA)  # the name is free again
    assert tuner.wait_for_end("endless")["HyperParameterTuningJobStatus"] == "Completed"


def test_target_of_the_objective_ends_the_tuning_job(tuner: Any) -> None:
    script = """
import sys, time
if sys.argv[sys.argv.index("--kind") + 1] == "slow":
    print("loss=0.4;", flush=True)
    time.sleep(600)
print("loss=0.2;")
"""
    ranges = {"CategoricalParameterRanges": [{"Name": "kind", "Values": ["slow", "good", "never"]}]}
    criteria = {"TargetObjectiveMetricValue": 0.25}
    options = {"Strategy": "Grid", "ranges": ranges, "limits": {"MaxNumberOfTrainingJobs": 3}}
    job = tuner.run("target", script, TuningJobCompletionCriteria=criteria, **options)
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    trials = [
        (trial["TunedHyperParameters"]["kind"], trial["TrainingJobStatus"]) for trial in tuner.list_trials("target")
    ]
    assert trials[:2] == [("slow", "Stopped"), ("good", "Completed")]
    # Even if the third trial had started before the second one's end was seen, it was not waited for.
    assert job["BestTrainingJob"]["TunedHyperParameters"]["kind"] in ("good", "never")
