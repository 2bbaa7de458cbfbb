"""Test which machine an attempt uses: it depends on how the attempt before it ended."""

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.sagemaker.machines import (
    Machine,
    choose_next_machine,
    had_no_capacity,
    list_machines_to_try,
    list_switches,
)


def make_machine(**fields):
    return Machine(**{
        "instance_type": "ml.m5.large", "instance_count": 1, "volume_size_gb": 30, "is_spot": True, "max_run_s": 60,
        "max_wait_s": 60, **fields,
    })  # fmt: skip


def describe_ended_job(
    instance_type="ml.m5.large", spot=True, secondary="MaxWaitTimeExceeded", reason="", name="job-1"
):
    return {
        "TrainingJobName": name, "SecondaryStatus": secondary, "FailureReason": reason,
        "ResourceConfig": {"InstanceType": instance_type, "InstanceCount": 1}, "EnableManagedSpotTraining": spot,
    }  # fmt: skip


def test_spot_request_has_both_times_and_on_demand_request_has_one():
    assert make_machine().build_request()["StoppingCondition"] == {
        "MaxRuntimeInSeconds": 60,
        "MaxWaitTimeInSeconds": 60,
    }
    on_demand = make_machine(is_spot=False, max_wait_s=1)
    assert on_demand.build_request()["StoppingCondition"] == {"MaxRuntimeInSeconds": 60}
    assert on_demand.build_request()["EnableManagedSpotTraining"] is False


def test_refuses_a_wait_that_is_shorter_than_the_run():
    with pytest.raises(AirflowFailException, match=r"max_wait_s \(59\) must be at least max_run_s \(60\)"):
        make_machine(max_wait_s=59)


def list_labels(machines):
    return [machine.label for machine in machines]


def test_policy_decides_which_machines_are_tried():
    types = ["ml.m5.large", "ml.m5.xlarge"]
    assert list_labels(list_machines_to_try(make_machine(), types[:1], "fail")) == ["ml.m5.large spot"]
    assert list_labels(list_machines_to_try(make_machine(), types, "next_instance_type")) == [
        "ml.m5.large spot",
        "ml.m5.xlarge spot",
    ]
    with_on_demand = ["ml.m5.large spot", "ml.m5.xlarge spot", "ml.m5.large on demand"]
    assert list_labels(list_machines_to_try(make_machine(), types, "on_demand")) == with_on_demand
    assert list_labels(list_machines_to_try(make_machine(is_spot=False), types[:1], "on_demand")) == [
        "ml.m5.large on demand"
    ]


MACHINES = list_machines_to_try(make_machine(), ["ml.m5.large", "ml.m5.xlarge"], "on_demand")


@pytest.mark.parametrize(
    ("last", "label"),
    [
        (None, "ml.m5.large spot"),
        (describe_ended_job(), "ml.m5.xlarge spot"),
        (describe_ended_job("ml.m5.xlarge"), "ml.m5.large on demand"),
        (describe_ended_job(spot=False, secondary="Failed", reason="CapacityError: no machine"), None),
        # A job that ended for another reason tries the same machine again.
        (describe_ended_job("ml.m5.xlarge", secondary="Stopped"), "ml.m5.xlarge spot"),
        (describe_ended_job(spot=False, secondary="Failed", reason="InternalServerError"), "ml.m5.large on demand"),
        # The task names other machines by now.
        (describe_ended_job("ml.c5.large"), "ml.m5.large spot"),
    ],
)
def test_next_machine_depends_on_the_last_attempt(last, label):
    machine = choose_next_machine(MACHINES, last)
    assert (machine and machine.label) == label


def test_only_a_long_wait_or_a_capacity_error_is_a_lack_of_capacity():
    assert had_no_capacity(describe_ended_job())
    assert had_no_capacity(
        describe_ended_job(secondary="Failed", reason="CapacityError: Unable to provision requested ML capacity")
    )
    assert not had_no_capacity(describe_ended_job(secondary="MaxRuntimeExceeded"))
    assert not had_no_capacity(describe_ended_job(secondary="Failed", reason="AlgorithmError: CapacityError"))


def test_each_switch_names_the_job_that_got_no_machine():
    attempts = [
        describe_ended_job(),
        describe_ended_job("ml.m5.xlarge", secondary="Stopped", name="job-2"),
        describe_ended_job("ml.m5.xlarge", name="job-3"),
    ]
    switch = {"from": "ml.m5.large spot", "to": "ml.m5.xlarge spot", "reason": "MaxWaitTimeExceeded", "job": "job-1"}
    assert list_switches(attempts) == [switch]
    assert list_switches(attempts[:1]) == list_switches([]) == []
