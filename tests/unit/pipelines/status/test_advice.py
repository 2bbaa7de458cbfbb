"""Test what the ledgers must show before a sentence says that something could cost less."""

import datetime as dt

from pipelines.costs.endpoints.fleets import Fleet
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.costs.usage.columns import COLUMNS, DATA_WAIT_COLUMN
from pipelines.status.advice import list_advice
from tests.unit.pipelines.costs.ledger_rows import make_endpoint_row

NOW = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
FLEET = Fleet(region="us-east-1", endpoint="e", config="c", variant="v", instance_type="ml.m5.large")


def make_job(**fields):
    """Return a row of the ledger: an hour of training yesterday for 1 USD, on demand."""
    return {
        "name": "m-train-1",
        "arn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/m-train-1",
        "region": "us-east-1",
        **{"dag_id": "m_train", "task_id": "train", "instance_type": "ml.m5.xlarge"},
        **dict.fromkeys((*COLUMNS, DATA_WAIT_COLUMN)),
        "model": "m",
        "created": NOW - dt.timedelta(1),
        "spot": False,
        "status": "Completed",
        "cost_usd": 1.0,
        "on_demand_usd": 1.0,
        "interruptions": 0,
        "instance_count": 1,
        "training_s": 3_600,
        "billable_s": 3_600,
        "lost_s": 0.0,
        "capacity_s": 0.0,
        **fields,
    }


SPOT_JOB = make_job(spot=True, cost_usd=0.3, created=NOW - dt.timedelta(90))


def make_row(days_ago, requests=0):
    """Return a row of the ledger of endpoints, of one day."""
    begin = NOW - dt.timedelta(days_ago + 1)
    return make_endpoint_row(begin, 24.0, **vars(FLEET), requests=requests)


def advise(jobs=(), rows=(), *, usd_h=0.1):
    fleets = [RunningFleet(FLEET, NOW, usd_h)] if rows else []
    return list_advice(jobs, rows, fleets, NOW)


def test_nothing_is_said_about_nothing():
    assert advise() == []
    assert advise([make_job()]) == [], "no spot job shows what spot would save"
    assert advise([SPOT_JOB]) == []
    assert advise([make_job(created=NOW - dt.timedelta(31)), SPOT_JOB]) == [], "too long ago"
    assert advise([make_job(), {**SPOT_JOB, "model": "other"}]) == []


def test_on_demand_jobs_are_compared_with_the_spot_jobs_of_the_model():
    (sentence,) = advise([make_job(), make_job(), SPOT_JOB])
    assert sentence == (
        "2 job(s) of model m in the last 30 days ran on demand. On spot instances they would have cost about 1.40 USD "
        "less, if they saved 70%, as the spot jobs of model m did."
    )


def test_failures_waits_and_lost_work_are_named():
    assert advise([make_job(status="Failed")]) == ["1 job(s) of model m in the last 30 days failed, and cost 1.00 USD."]
    (wait,) = advise([make_job(capacity_s=1_200)])
    assert wait.startswith("Waits for instances took 25% of the time of the jobs of model m in the last 30 days, 0.3 h")
    assert advise([make_job(capacity_s=500, training_s=100)]) == [], "too short to matter"
    (lost,) = advise([make_job(lost_s=720.0, interruptions=1, spot=True)])
    assert lost == (
        "Interruptions undid 20% of the training time of the jobs of model m in the last 30 days: there was one every "
        "1.0 h of training, and each undid 12 min on average. Saving checkpoints more often would reduce the loss, "
        "if a save takes less than 288 s."
    )
    assert advise([make_job(lost_s=350.0, interruptions=1, spot=True)]) == [], "too little to matter"
    on_demand_too = [make_job(lost_s=1440.0, interruptions=2, spot=True), make_job()]
    assert "there was one every 0.5 h" in advise(on_demand_too)[-1], "only jobs on spot are interrupted"


def advise_on_idle(rows, **fields):
    return [sentence for sentence in advise(rows=rows, **fields) if "had no request" in sentence]


def test_an_endpoint_without_requests_is_named():
    week = [make_row(days) for days in range(8, -1, -1)]
    (sentence,) = advise(rows=week)
    assert sentence == "Endpoint e had no request in the 7 days up to 2026-11-20, and costs 2.40 USD a day."
    assert advise_on_idle(week, usd_h=0.0) == [], "it costs nothing"
    assert advise_on_idle(week[-5:]) == [], "it was metered for fewer days"
    assert advise_on_idle([*week[:-1], make_row(0, requests=3)]) == []
    assert advise_on_idle([make_row(8, requests=3), *week[1:]]) == [sentence], "that request is older"
    assert list_advice([], week, [], NOW) == [], "it no longer runs"


def test_size_of_the_instances_of_endpoints_is_a_part_of_it():
    little = {"cpu_peak": 80.0, "cpu_mean": 40.0, "memory_peak": 15.0, "memory_mean": 10.0, "observed_h": 24.0}
    rows = [make_row(days, requests=9) | {**little, "cost_usd": 11.0} for days in range(8, -1, -1)]
    fleet = Fleet("us-east-1", "e", "c", "v", "ml.m5.2xlarge")
    rows = [row | vars(fleet) for row in rows]
    (sentence,) = list_advice([], rows, [RunningFleet(fleet, NOW, 0.461)], NOW)
    assert sentence.startswith("Endpoint e (variant v, 1 x ml.m5.2xlarge) used at most 10% (mean 5%) of its 8 vCPUs")
    (sentence,) = advise(rows=[make_row(0, requests=3)])
    assert sentence.startswith("The size of endpoint e (variant v, 1 x ml.m5.large) is not judged")


def test_size_of_the_instances_is_a_part_of_it():
    little = {"cpu_peak": 40.0, "cpu_mean": 10.0, "memory_peak": 9.0, "memory_mean": 5.0}
    (sentence,) = advise([make_job(**little)] * 5)
    assert sentence.startswith("The last 5 training jobs of model m on ml.m5.xlarge used at most 10% of its 4 vCPUs")
    assert advise([make_job(**little)] * 4) == [], "too few jobs"


def test_training_that_waits_for_its_data_is_a_part_of_it():
    assert advise([make_job(spot=True, data_wait_share=0.1)]) == []
    (sentence,) = advise([make_job(spot=True, data_wait_share=0.5)])
    assert sentence.startswith("A training job of model m on ml.m5.xlarge waited for data in 50% of the time")
