"""Test when trainings are named because they wait for their data."""

import datetime as dt

import pytest

from pipelines.costs.usage.columns import DATA_WAIT_COLUMN
from pipelines.costs.usage.data_waits import list_data_wait_advice
from tests.tools.ledger_rows import NOW, make_jobs


def make_task(*shares, **fields):
    """Return rows with these shares, the oldest first."""
    changes = [{DATA_WAIT_COLUMN: share} for share in reversed(shares)]
    return make_jobs(*changes, **{"count": len(shares), "instance_type": "ml.g5.2xlarge", "cost_usd": 1.5, **fields})


def advise(*shares, **fields):
    return list_data_wait_advice(make_task(*shares, **fields), NOW)


def test_training_that_waits_is_named_with_its_evidence_and_what_the_wait_cost():
    assert advise(0.4, 0.3, 0.35, cpu_mean=160.0) == [
        "The last 3 training jobs of model m on ml.g5.2xlarge waited for data in 35% of the time "
        "(2026-11-17 to 2026-11-19), which cost about 1.57 USD: the instance's 8 vCPUs were 20% busy, so give the "
        "loader more workers."
    ]


def test_busy_vcpus_need_another_instance_or_less_work():
    (sentence,) = advise(0.3, cpu_mean=700.0)
    assert "88% busy, so take an instance type with more vCPUs for each GPU" in sentence
    assert sentence.startswith("A training job of model m")


def test_without_the_use_of_the_vcpus_both_are_named():
    (sentence,) = advise(0.3)
    assert sentence.endswith("give the loader more workers, or take an instance type with more vCPUs for each GPU.")


def test_without_an_accelerator_the_script_may_read_all_rows_first():
    (sentence,) = advise(0.3, instance_type="ml.m5.xlarge", cpu_mean=100.0)
    assert "on ml.m5.xlarge waited for data in 30% of the time" in sentence
    assert sentence.endswith(
        "use a shorter window, fewer features or more vCPUs; if it has a loader, give the loader more workers."
    )


@pytest.mark.parametrize(
    ("shares", "fields"),
    [
        ((0.19,), {}),
        ((0.9, 0.1), {}),  # the newest job waits no more
        ((0.0, 0.0, 0.0, 0.3), {}),  # one job of several
        ((0.9, None), {}),  # the newest job reports nothing
        ((None,), {}),
        ((0.9,), {"status": "Failed"}),
        ((0.9,), {"cost_usd": 0.01}),
        ((0.9,), {"created": NOW - dt.timedelta(91)}),
        ((), {}),
    ],
)
def test_nothing_is_said_without_evidence(shares, fields):
    assert advise(*shares, **fields) == []


def test_jobs_before_a_change_of_the_instance_type_do_not_count():
    rows = make_task(0.9, 0.9, 0.25)
    rows[-1]["instance_type"] = "ml.g5.4xlarge"
    (sentence,) = list_data_wait_advice(rows, NOW)
    assert sentence.startswith("A training job of model m on ml.g5.4xlarge waited for data in 25%")
    assert len(list_data_wait_advice([*rows, *make_task(0.5, task_id="other")], NOW)) == 2
