"""The machine of an attempt: a function of how the one before it ended."""

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.sagemaker.machines import (
    Machine,
    choose_next_machine,
    had_no_capacity,
    list_machines_to_try,
    list_switches,
)


def machine(**more):
    return Machine(**{
        "instance_type": "ml.m5.large", "instance_count": 1, "volume_size_gb": 30, "spot": True, "max_run_s": 60,
        "max_wait_s": 60, **more,
    })  # fmt: skip


def ended(kind="ml.m5.large", spot=True, secondary="MaxWaitTimeExceeded", reason="", name="job-1"):
    return {
        "TrainingJobName": name, "SecondaryStatus": secondary, "FailureReason": reason,
        "ResourceConfig": {"InstanceType": kind, "InstanceCount": 1}, "EnableManagedSpotTraining": spot,
    }  # fmt: skip


def test_spot_says_both_times_and_on_demand_only_one():
    assert machine().request()["StoppingCondition"] == {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60}
    demand = machine(spot=False, max_wait_s=1)
    assert demand.request()["StoppingCondition"] == {"MaxRuntimeInSeconds": 60}
    assert demand.request()["EnableManagedSpotTraining"] is False


def test_wait_shorter_than_the_run_is_refused():
    with pytest.raises(AirflowFailException, match=r"max_wait_s \(59\) must be at least max_run_s \(60\)"):
        machine(max_wait_s=59)


def labels(machines):
    return [one.label for one in machines]


def test_ladder_is_as_the_policy_says():
    both = ["ml.m5.large", "ml.m5.xlarge"]
    assert labels(list_machines_to_try(machine(), both[:1], "fail")) == ["ml.m5.large spot"]
    assert labels(list_machines_to_try(machine(), both, "next_instance_type")) == [
        "ml.m5.large spot",
        "ml.m5.xlarge spot",
    ]
    with_demand = ["ml.m5.large spot", "ml.m5.xlarge spot", "ml.m5.large on demand"]
    assert labels(list_machines_to_try(machine(), both, "on_demand")) == with_demand
    assert labels(list_machines_to_try(machine(spot=False), both[:1], "on_demand")) == ["ml.m5.large on demand"]


RUNGS = list_machines_to_try(machine(), ["ml.m5.large", "ml.m5.xlarge"], "on_demand")


@pytest.mark.parametrize(
    ("last", "label"),
    [
        (None, "ml.m5.large spot"),
        (ended(), "ml.m5.xlarge spot"),
        (ended("ml.m5.xlarge"), "ml.m5.large on demand"),
        (ended(spot=False, secondary="Failed", reason="CapacityError: none there"), None),
        # What ended for another reason stays where it was.
        (ended("ml.m5.xlarge", secondary="Stopped"), "ml.m5.xlarge spot"),
        (ended(spot=False, secondary="Failed", reason="InternalServerError"), "ml.m5.large on demand"),
        # The task names other machines now.
        (ended("ml.c5.large"), "ml.m5.large spot"),
    ],
)
def test_following_machine_is_a_function_of_the_last_attempt(last, label):
    found = choose_next_machine(RUNGS, last)
    assert (found and found.label) == label


def test_only_a_wait_or_a_lack_of_machines_is_no_capacity():
    assert had_no_capacity(ended())
    assert had_no_capacity(ended(secondary="Failed", reason="CapacityError: Unable to provision requested ML capacity"))
    assert not had_no_capacity(ended(secondary="MaxRuntimeExceeded"))
    assert not had_no_capacity(ended(secondary="Failed", reason="AlgorithmError: CapacityError"))


def test_switches_name_the_job_that_had_no_machine():
    attempts = [ended(), ended("ml.m5.xlarge", secondary="Stopped", name="job-2"), ended("ml.m5.xlarge", name="job-3")]
    said = {"from": "ml.m5.large spot", "to": "ml.m5.xlarge spot", "reason": "MaxWaitTimeExceeded", "job": "job-1"}
    assert list_switches(attempts) == [said]
    assert list_switches(attempts[:1]) == list_switches([]) == []
