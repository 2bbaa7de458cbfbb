"""Test what jobs must have used before a smaller or a larger instance type is named."""

import datetime as dt
import json

import pytest

from pipelines.costs.price_sources.price_tables import PRICES_VARIABLE
from pipelines.costs.usage import other_types
from pipelines.costs.usage.right_sizing import list_size_advice
from tests.tools.ledger_rows import NOW, make_jobs

LITTLE = {"cpu_peak": 80.0, "cpu_mean": 40.0, "memory_peak": 15.0, "memory_mean": 10.0}
"""What a job used at most: 10 % of 8 vCPUs, and 15 % of the memory."""


def make_task(*changes, **fields):
    return make_jobs(*changes, **{"cost_usd": 0.1, **LITTLE, **fields})


def advise(*changes, **fields):
    return list_size_advice(make_task(*changes, **fields), NOW)


def test_smaller_type_is_named_with_its_evidence_and_what_it_saves():
    assert advise() == [
        "The last 5 training jobs of model m on ml.m5.2xlarge used at most 10% of its 8 vCPUs and 15% of its memory "
        "(2026-11-15 to 2026-11-19): ml.m5.large (2 vCPUs, 8 GiB) would be enough, and would have cost about 0.3753 "
        "USD less, if the jobs take as long there."
    ]


@pytest.mark.parametrize(
    ("peaks", "name"),
    [
        ({"cpu_peak": 161.0}, "ml.c5.xlarge"),  # more than 80 % of the two vCPUs of ml.m5.large
        ({"memory_peak": 21.0}, "ml.r5.large"),  # 84 % of the memory of ml.m5.large
        ({"cpu_peak": 161.0, "memory_peak": 21.0}, "ml.m5.xlarge"),  # and more than the memory of ml.c5.xlarge
        ({"cpu_peak": 321.0}, "ml.c5.2xlarge"),
        ({"memory_peak": 41.0}, "ml.r5.xlarge"),
        ({"cpu_peak": 321.0, "memory_peak": 41.0}, ""),
        ({"cpu_peak": 641.0}, ""),
        ({"memory_peak": 81.0}, ""),
    ],
)
def test_one_of_the_jobs_decides_by_its_peak(peaks, name):
    sentences = advise(peaks)
    assert [f"{name} (" in sentence for sentence in sentences] == ([True] if name else [])


def test_saving_of_a_year_needs_a_week_of_jobs():
    (sentence,) = advise(count=30)
    # 0.07506 USD a job, and 29.5 jobs in 30 days: 0.07506 * 29.5 / 30 * 365.
    assert "0.3753 USD less, or 26.94 USD a year at 0.98 job(s) a day, if the jobs" in sentence
    assert "a year" not in advise(count=6)[0]
    (sentence,) = advise(count=200)
    assert "27.09 USD a year at 0.99 job(s) a day" in sentence, "only the last 90 days tell how often it runs"


@pytest.mark.parametrize(
    "change",
    [{"cpu_peak": None}, {"memory_peak": None}, {"status": "Failed"}, {"instance_type": "ml.m5.xlarge"}],
)
def test_one_job_without_evidence_is_enough_to_say_nothing(change):
    assert advise(change) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"count": 4},
        {"created": NOW - dt.timedelta(91)},
        {"instance_type": "ml.g5.2xlarge"},
        {"instance_type": "ml.m5.huge"},
        {"instance_type": "ml.x9.2xlarge"},
        {"region": "mars-north-1"},
        {"cost_usd": 0.0001},
    ],
)
def test_nothing_is_said_about_few_old_unknown_accelerated_or_cheap_jobs(fields):
    assert advise(**fields) == []


def test_older_jobs_do_not_count():
    rows = make_task(count=8)
    rows[0]["memory_peak"] = 99.0
    assert len(list_size_advice(rows, NOW)) == 1


def test_larger_type_is_named_if_one_job_nearly_filled_the_memory():
    full = {"memory_peak": 96.4, "status": "Failed"}
    assert advise(full) == [
        "A training job of model m on ml.m5.2xlarge used 96% of its memory (m-train-4, 2026-11-19); a job that needs "
        "more than it has is killed: ml.r5.2xlarge (8 vCPUs, 64 GiB) has more, at 0.605 USD an hour in place of 0.461, "
        "about 0.0312 USD more a job, if the jobs take as long there."
    ]
    assert advise(full, count=1) == [sentence.replace("m-train-4", "m-train-0") for sentence in advise(full)]
    assert advise({"memory_peak": 90.0}) == [], "the control"
    (sentence,) = advise(full, instance_type="ml.g5.2xlarge")
    assert "ml.g5.4xlarge (16 vCPUs, 64 GiB, 1 x A10G with 22 GiB) has more, at " in sentence, "no slower GPU"
    (sentence,) = advise(full, instance_type="ml.r5.24xlarge")
    assert sentence.endswith("take an instance type with more.")


def test_price_of_a_larger_type_is_that_of_a_year_after_a_week():
    # 0.1 USD a job, 19.5 jobs in 20 days, and 0.605 / 0.461 of the price.
    (sentence,) = advise({"memory_peak": 96.0}, count=20)
    assert "0.0312 USD more a job, or 11.12 USD a year at 0.97 job(s) a day, if the jobs take" in sentence
    costs = [{"memory_peak": 96.0, "cost_usd": 0.3}, {"instance_type": "ml.m5.large", "cost_usd": 99.0}]
    assert "0.0469 USD more a job" in advise(*costs)[0], "the mean of the jobs on the present type"


def test_larger_type_that_costs_less_is_said_to_do_so(monkeypatch):
    prices = {"ml.m5.2xlarge": 0.5, "ml.r5.2xlarge": 0.4}
    monkeypatch.setattr(other_types, "list_prices", lambda region, component: prices)
    (sentence,) = advise({"memory_peak": 96.0})
    assert "at 0.4 USD an hour in place of 0.5, about 0.0200 USD less a job, if" in sentence


def test_larger_type_with_a_gpu_is_of_the_same_family(monkeypatch):
    prices = {"ml.g5.2xlarge": 1.5, "ml.g5.4xlarge": 2.0, "ml.p4d.24xlarge": 1.6}
    monkeypatch.setattr(other_types, "list_prices", lambda region, component: prices)
    assert "ml.g5.4xlarge (" in advise({"memory_peak": 96.0}, instance_type="ml.g5.2xlarge")[0]


def test_types_of_another_processor_use_or_speed_are_left_out(monkeypatch):
    names = ("ml.m7g.large", "ml.t3.large", "ml.m4.large", "ml.m5.xlarge", "ml.g5.xlarge")
    monkeypatch.setattr(
        other_types, "list_prices", lambda region, component: {"ml.m5.2xlarge": 0.46, **dict.fromkeys(names, 0.1)}
    )
    assert "ml.m5.xlarge (" in advise()[0]
    monkeypatch.setattr(
        other_types,
        "list_prices",
        lambda region, component: {"ml.m5.2xlarge": 0.46, "ml.c5.xlarge": 0.1, "ml.m5.xlarge": 0.2},
    )
    assert "ml.c5.xlarge (" in advise()[0], "the control"


def test_tasks_and_kinds_of_jobs_are_told_apart():
    rows = make_task(count=10)
    for row in rows[::2]:
        row["task_id"] = "other"
    assert len(list_size_advice(rows, NOW)) == 2
    for row in rows[::4]:
        row["arn"] = row["arn"].replace("training", "processing")
    assert len(list_size_advice(rows, NOW)) == 1


def test_types_of_a_table_of_prices_of_the_user_are_known(tmp_path, monkeypatch):
    group = {"regions": ["mars-north-1"], "usd_per_hour": {"ml.m5.2xlarge": 1.0, "ml.m5.xlarge": 0.5}}
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"as_of": "2026-10-01", "prices": [group]}))
    monkeypatch.setenv(PRICES_VARIABLE, str(table))
    (sentence,) = advise(region="mars-north-1")
    assert "ml.m5.xlarge (4 vCPUs, 16 GiB) would be enough, and would have cost about 0.2500 USD less" in sentence
    monkeypatch.setenv(PRICES_VARIABLE, "api")
    assert len(advise()) == 1, "AWS is not requested"
