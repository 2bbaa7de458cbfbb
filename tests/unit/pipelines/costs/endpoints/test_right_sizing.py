"""Test what endpoints must have used before smaller, larger, fewer or more instances are named."""

import datetime as dt
import json

import pytest

from pipelines.costs.endpoints.fleets import Fleet
from pipelines.costs.endpoints.ledger import get_fleet
from pipelines.costs.endpoints.right_sizing import list_endpoint_size_advice
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.costs.price_sources.price_tables import PRICES_VARIABLE
from pipelines.costs.usage.columns import COLUMNS
from tests.unit.pipelines.costs.ledger_rows import make_endpoint_row

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
LITTLE = {"cpu_peak": 80.0, "cpu_mean": 40.0, "memory_peak": 15.0, "memory_mean": 10.0}
"""10 % and 5 % of 8 vCPUs, and 15 % and 10 % of the memory."""
GPU = {
    **{"instance_type": "ml.g5.12xlarge", "cpu_peak": 200.0, "memory_peak": 5.0, "memory_mean": 4.0},
    **{"gpu_peak": 100.0, "gpu_mean": 60.0, "gpu_memory_peak": 90.0, "instances": 1},
}
"""15 % of four GPUs."""


def make_rows(*changes, days=10, **fields):
    """Return rows of whole days up to `NOW`, oldest first. The changes are those of the newest rows, the newest first.

    The instances are two ml.m5.2xlarge of 1 USD an hour each.
    """
    rows = []
    for number in range(days):
        values = {"instance_type": "ml.m5.2xlarge", "instances": 2, "requests": 1_000, "observed_h": 24.0}
        values |= {**LITTLE, "scaled": False, **fields, **(changes[number] if number < len(changes) else {})}
        values = {"instance_h": 24.0 * values["instances"], "cost_usd": 24.0 * values["instances"], **values}
        rows.insert(0, make_endpoint_row(NOW - dt.timedelta(number + 1), 24, **values))
    return rows


def advise(*changes, rows=None, **fields):
    rows = make_rows(*changes, **fields) if rows is None else rows
    return list_endpoint_size_advice(rows, [RunningFleet(get_fleet(rows[-1]), NOW, 1.0)], NOW)


def test_cheaper_type_and_fewer_instances_are_named_with_their_evidence():
    # 480 USD in 240 h; ml.m5.large has 0.115 / 0.461 of the price.
    assert advise() == [
        "Endpoint e (variant v, 2 x ml.m5.2xlarge) used at most 10% (mean 5%) of its 8 vCPUs and 15% (mean 10%) of its "
        "memory (240 h observed from 2026-11-11 to 2026-11-21, 10,000 requests): ml.m5.large (2 vCPUs, 8 GiB) fits, "
        "for about 360.26 USD less, or 13,149.50 USD a year; or one instance in place of 2 is enough, "
        "for about 240.00 USD less, or 8,760.00 USD a year, if the endpoint may be down when its only instance fails."
    ]


@pytest.mark.parametrize(
    ("peaks", "name"),
    [
        ({"cpu_peak": 161.0}, "ml.c5.xlarge"),
        ({"memory_peak": 21.0}, "ml.r5.large"),
        ({"cpu_peak": 161.0, "memory_peak": 21.0}, "ml.m5.xlarge"),
        ({"cpu_peak": 321.0}, "ml.c5.2xlarge"),
        ({"cpu_peak": 321.0, "memory_peak": 41.0}, ""),
        ({"cpu_peak": 641.0, "memory_peak": 85.0}, ""),
    ],
)
def test_one_row_decides_by_its_peak_as_one_job_does(peaks, name):
    sentences = advise({}, peaks, instances=1)
    assert [f"{name} (" in sentence for sentence in sentences] == ([True] if name else [])


@pytest.mark.parametrize(
    ("instances", "peaks", "expected"),
    [
        (4, {"cpu_peak": 640.0}, ""),  # well used: 80 % of 8 vCPUs
        (4, {"cpu_peak": 481.0}, ""),  # 4 x 60.1 % are more than three times 80 %
        (
            4,
            {"cpu_peak": 479.0},
            "3 instances in place of 4 are enough, for about 240.00 USD less, or 8,760.00 USD",
        ),
        (4, {"cpu_peak": 479.0, "memory_peak": 81.0}, ""),  # each instance holds the whole model
        (2, {"cpu_peak": 321.0}, ""),
        (2, {"cpu_peak": 319.0}, "one instance in place of 2 is enough, for about 240.00 USD less"),
        (1, {"cpu_peak": 1.0}, ""),
    ],
)
def test_number_of_instances_is_one_on_which_all_peaks_at_once_fit(instances, peaks, expected, monkeypatch):
    monkeypatch.setattr("pipelines.costs.endpoints.cheaper_instances.list_other_types", lambda *_: [])
    sentences = advise(peaks, instances=instances)
    assert [expected in sentence for sentence in sentences] == ([True] if expected else [])


@pytest.mark.parametrize("is_scaled", [True, None])
def test_number_of_instances_that_a_person_does_not_choose_is_not_judged(is_scaled):
    (sentence,) = advise({"instances": 5, "instance_h": 80.0}, scaled=is_scaled) if is_scaled else advise(scaled=None)
    assert "ml.m5.large (2 vCPUs, 8 GiB) fits" in sentence and "in place of" not in sentence
    assert ("(variant v, ml.m5.2xlarge, scaled automatically)" in sentence) is bool(is_scaled)
    assert ("if the target value of its scaling policy is measured again on it." in sentence) is bool(is_scaled)


def test_larger_type_is_named_if_the_memory_is_nearly_full_however_short_it_was_observed():
    full = {"memory_peak": 95.0}
    assert advise(full, days=1, instances=1) == [
        "Endpoint e (variant v, 1 x ml.m5.2xlarge) used 95% of its memory (24 h observed from 2026-11-20 to "
        "2026-11-21, 1,000 requests); a container that needs more than it has is killed: ml.r5.2xlarge (8 vCPUs, 64 "
        "GiB) has more, at 0.605 USD an hour in place of 0.461, 1,261.44 USD more a year for one instance."
    ]
    assert "5,045.76 USD more a year for 4 instances." in advise(full, instances=4)[0]
    assert advise({"memory_peak": 90.0}) == [], "the control"
    (sentence,) = advise(full, instance_type="ml.r5.24xlarge")
    assert sentence.endswith("is killed: take an instance type with more.")


def test_larger_type_or_more_instances_are_named_if_the_cpu_is_busy_for_long():
    busy = {"cpu_mean": 640.0, "cpu_peak": 790.0}
    (sentence,) = advise(**busy)
    assert sentence.startswith("Endpoint e (variant v, 2 x ml.m5.2xlarge) used 80% of its 8 vCPUs on average (240 h ")
    assert "ml.c5.4xlarge (16 vCPUs, 32 GiB) has more, at 0.816 USD an hour in place of 0.461, 6,219.60 USD" in sentence
    assert sentence.endswith("or 3 instances in place of 2 cost 8,760.00 USD more a year.")
    (sentence,) = advise(**busy, scaled=True)
    assert "a lower target value of its scaling policy" in sentence and "in place of 2" not in sentence
    assert advise(**{**busy, "cpu_mean": 639.0}) == [], "the control: well used"
    assert advise(busy, busy, cpu_peak=650.0, cpu_mean=100.0) == [], "two busy days of ten are not long"


def test_gpus_that_are_hardly_used_are_named_with_a_type_that_would_be_enough():
    (sentence,) = advise(**GPU)
    assert "5% (mean 4%) of its memory and 25% (mean 15%) of its 4 GPUs (240 h observed" in sentence
    assert sentence.endswith(
        "ml.g5.xlarge (4 vCPUs, 16 GiB, 1 x A10G with 22 GiB) fits, for about 192.34 USD less, or 7,020.36 USD a year."
    )
    assert advise(**GPU | {"gpu_mean": 200.0, "gpu_peak": 390.0}) == [], "the control"


def test_type_without_a_gpu_is_named_if_the_gpu_does_nearly_nothing():
    (sentence,) = advise(**GPU | {"gpu_mean": 20.0, "gpu_peak": 60.0})
    assert "ml.m5.xlarge (4 vCPUs, 16 GiB) fits, for about 232.21 USD less" in sentence
    assert "if the model answers fast enough without a GPU; or ml.g5.xlarge" in sentence
    assert "without a GPU" not in advise(**GPU | {"gpu_mean": 21.0})[0], "the control"


def set_prices(monkeypatch, **prices):
    """Set the prices of types, named without "ml." and with "_" in place of "."."""
    table = {f"ml.{name.replace('_', '.')}": usd_h for name, usd_h in prices.items()}
    monkeypatch.setattr("pipelines.costs.usage.other_types.list_prices", lambda region, component: table)


def test_cheaper_type_is_named_only_if_the_gpus_are_not_well_used(monkeypatch):
    set_prices(monkeypatch, g5_12xlarge=10.0, g5_24xlarge=5.0)
    assert advise(**GPU | {"gpu_mean": 200.0, "gpu_peak": 390.0}) == []
    assert "ml.g5.24xlarge (" in advise(**GPU | {"gpu_mean": 199.0, "gpu_peak": 390.0})[0], "the control"


def test_type_without_a_gpu_is_not_burstable_old_or_of_another_processor(monkeypatch):
    set_prices(monkeypatch, g5_12xlarge=10.0, t2_2xlarge=0.1, m4_2xlarge=0.1, m8g_2xlarge=0.1, m5_2xlarge=0.2)
    (sentence,) = advise(**GPU | {"gpu_mean": 0.0, "gpu_peak": 0.0})
    assert ": ml.m5.2xlarge (" in sentence


def test_gpu_without_a_cheaper_type_may_take_more_work():
    (sentence,) = advise({}, {"gpu_memory_peak": None}, **GPU)
    assert sentence.endswith(
        "more requests or models would use its idle part, which cost about 204.00 USD, or 7,446.00 USD a year."
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"days": 6}, "its utilization is known for only 144 of the 168 hours needed"),
        ({"days": 7, "observed_h": 23.99}, "its utilization is known for only 167 of the 168 hours needed"),
        ({"observed_h": 6.0}, "its utilization is known for only 60 of the 168 hours needed"),
        ({"cpu_peak": None, "cpu_mean": None}, "CloudWatch has no value of the utilization of its CPU"),
        (
            {"observed_h": 0.0, **dict.fromkeys(COLUMNS)},
            "CloudWatch has no value of the utilization of its CPU and memory",
        ),
        ({**GPU, "gpu_peak": None, "gpu_mean": None}, "CloudWatch has no value of the utilization of its GPUs"),
        ({"observed_h": None, **dict.fromkeys(COLUMNS)}, "its utilization is known for only 0 of the 168 hours needed"),
    ],
)
def test_unknown_use_gives_no_advice_but_the_reason(fields, reason):
    (sentence,) = advise(**fields)
    assert sentence.startswith("The size of endpoint e (variant v, ") and sentence.endswith(f"because {reason}.")
    assert "fits, for" in advise(days=7)[0], "the control"


def test_a_day_of_unknown_use_is_no_evidence_and_no_zero():
    unknown = {"observed_h": 0.0, **dict.fromkeys(COLUMNS)}
    (sentence,) = advise(unknown)
    assert "(mean 5%) of its 8 vCPUs" in sentence and "(216 h observed " in sentence
    assert "480.00" not in sentence and "360.26 USD less" in sentence, "its hours cost as the others"


@pytest.mark.parametrize(
    "change",
    [{"instance_type": "ml.m5.xlarge"}, {"instances": 3, "instance_h": 72.0}, {"instances": 2, "instance_h": 60.0}],
)
def test_rows_of_other_instances_do_not_count(change):
    rows = make_rows(*[{}] * 8, change)
    (sentence,) = advise(rows=rows)
    assert "192 h observed from 2026-11-13" in sentence
    assert "240 h" in advise()[0], "the control"


def test_rows_of_earlier_releases_count_and_older_ones_do_not():
    rows = make_rows(days=40)
    for row in rows[:-3]:
        row["config"] = "earlier"
    (sentence,) = advise(rows=rows)
    assert "720 h observed from 2026-10-22 to 2026-11-21, 30,000 requests" in sentence
    rows[-1]["requests"] = None
    assert "an unknown number of requests" in advise(rows=rows)[0]


def test_variants_are_told_apart_and_a_release_has_one_sentence():
    rows = make_rows()
    others = make_rows(variant="other", cpu_peak=700.0)
    fleets = [RunningFleet(get_fleet(row), NOW, 1.0) for row in (rows[-1], {**rows[-1], "config": "new"}, others[-1])]
    (sentence,) = list_endpoint_size_advice([*rows, *others], fleets, NOW)
    assert "(variant v, " in sentence


def test_nothing_is_said_about_serverless_unused_and_ended_endpoints_and_of_unknown_types_only_why():
    assert advise(instance_type="", memory_mb=2_048) == []
    assert advise(requests=0) == [], "other advice names it"
    assert advise(requests=0, observed_h=None, **dict.fromkeys(COLUMNS)) == []
    assert "48 of the 168 hours" in advise(requests=0, days=2)[0], "other advice needs a week, too"
    assert list_endpoint_size_advice(make_rows(), [], NOW) == [], "it does not run"
    (sentence,) = advise(instance_type="ml.x9.large")
    assert sentence.endswith("because the size of its instance type ml.x9.large is not known.")
    unmetered = RunningFleet(Fleet("us-east-1", "e", "c", "v", "ml.m5.large"), NOW, 0.1)
    (sentence,) = list_endpoint_size_advice([], [unmetered], NOW)
    assert sentence.startswith(
        "The size of endpoint e (variant v, ml.m5.large) is not judged, because its utilization is known "
    )
    assert advise(region="mars-north-1", instances=1) == [], "no type has a price"
    assert advise(cost_usd=0.0001, instances=1) == []


def test_prices_of_hosting_count(tmp_path, monkeypatch):
    group = {
        **{"regions": ["mars-north-1"], "usd_per_hour": {"ml.m5.2xlarge": 1.0, "ml.m5.xlarge": 0.5}},
        "hosting_usd_per_hour": {"ml.m5.xlarge": 0.8},
    }
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"as_of": "2026-10-01", "prices": [group]}))
    monkeypatch.setenv(PRICES_VARIABLE, str(table))
    (sentence,) = advise(region="mars-north-1", instances=1)
    assert "ml.m5.xlarge (4 vCPUs, 16 GiB) fits, for about 48.00 USD less" in sentence


def test_hours_without_instances_lower_the_saving_of_a_year():
    half = {"instance_h": 12.0, "zero_h": 12.0, "cost_usd": 12.0, "observed_h": 12.0}
    (sentence,) = advise(**half, days=20, scaled=True)
    assert "for about 180.13 USD less, or 3,287.38 USD a year" in sentence


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"scaled": True, "cpu_mean": 640.0, "cpu_peak": 700.0},
        {"memory_peak": 95.0},
        {**GPU, "instances": 12, "gpu_mean": 20.0, "gpu_peak": 60.0},
    ],
)
def test_sentence_with_usual_names_fits_on_the_page(fields):
    (sentence,) = advise(**fields, endpoint="flights-production", variant="AllTraffic")
    assert len(sentence) <= 500
