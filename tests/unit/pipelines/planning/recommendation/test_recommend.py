"""Test recommendations: limits, costs, spot, Pareto front, and what is left out and why."""

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from pipelines.costs.charges import Price
from pipelines.errors import DataError
from pipelines.instances.catalogue import list_instances
from pipelines.planning.recommendation.correction import Observation
from pipelines.planning.recommendation.data_size import GROWTH
from pipelines.planning.recommendation.language_model import LanguageModelWorkload
from pipelines.planning.recommendation.limits import Limits
from pipelines.planning.recommendation.measured import build_measured_workload
from pipelines.planning.recommendation.options import Recommendation, find_front
from pipelines.planning.recommendation.quotes import Quote, build_quote
from pipelines.planning.recommendation.recommend import Request, recommend, require_option
from tests.tools.ledger_rows import make_row

DAY = dt.date(2026, 10, 1)
PRICES = {"ml.m5.large": 0.115, "ml.m5.xlarge": 0.23, "ml.m5.2xlarge": 0.461, "ml.m5.4xlarge": 0.922}


def make_quote(usd_h: float, **fields: Any) -> Quote:
    return Quote(Price(usd_h=usd_h, date=DAY, source="test"), **fields)


def plan(limits: Limits | None = None, quote: dict[str, Any] | None = None, **fields: Any) -> Recommendation:
    """Recommend for a training that took an hour on all eight vCPUs of ml.m5.2xlarge, with 2 GiB of memory."""
    workload = build_measured_workload([make_row(cpu_mean=790, memory_peak=6)], "flights")
    quotes = {name: make_quote(usd, **(quote or {})) for name, usd in PRICES.items()}
    instances = list_instances("training", [*PRICES, "ml.c5.xlarge"])
    return recommend(Request(workload, instances, {"us-east-1": quotes}, limits or Limits(), **fields))


def test_the_cheapest_within_the_deadline_and_the_fastest_within_the_budget() -> None:
    free = plan()
    assert free.fastest and free.fastest.instance_type == "ml.m5.4xlarge"
    # On all vCPUs, ml.m5.large costs the same as ml.m5.xlarge, but its worst case is dearer.
    assert free.cheapest and free.cheapest.instance_type == "ml.m5.xlarge"
    assert free.cheapest.cost_usd == pytest.approx(0.115 * 7.9 / 2)
    hurried = plan(Limits(deadline_s=3_000))
    assert [option.instance_type for option in hurried.options] == ["ml.m5.4xlarge"]
    poor = plan(Limits(budget_usd=0.46))
    assert poor.fastest and poor.fastest.instance_type == "ml.m5.xlarge"
    reasons = {entry.instance_type: (entry.kind, entry.reason) for entry in hurried.exclusions}
    assert reasons["ml.m5.large"] == ("deadline", "takes 4.0 h or more, past the deadline")
    assert reasons["ml.c5.xlarge"] == ("price", "no price is known in us-east-1")
    assert {entry.kind for entry in poor.exclusions} == {"price", "budget", "on demand"}


def test_of_equal_costs_the_one_that_stays_within_the_limits_at_worst_is_the_cheapest() -> None:
    base = plan().options[0]
    slow, quick = replace(base, high_usd=2.0), replace(base, instance_type="ml.m5.4xlarge", high_usd=3.0)
    free = replace(plan(), options=(slow, quick))
    assert free.cheapest == slow
    risky = replace(slow, has_limit_risk=True)
    assert replace(free, options=(risky, quick)).cheapest == quick
    assert replace(free, options=(risky, replace(quick, has_limit_risk=True))).cheapest == risky
    cheaper = replace(risky, cost_usd=risky.cost_usd / 2)
    assert replace(free, options=(cheaper, quick)).fastest == quick, "of equal times, it is safe"
    assert replace(free, options=(cheaper, quick)).cheapest == cheaper
    assert replace(free, options=(risky, replace(quick, cost_usd=2 * risky.cost_usd))).cheapest == risky


def test_the_front_has_no_option_that_another_one_beats() -> None:
    options = plan(quote={"spot_saving": 0.6}).options
    front = find_front(options)
    assert [option.finish_s for option in front] == sorted(option.finish_s for option in front)
    for option in options:
        is_beaten = any(
            one.finish_s <= option.finish_s * 1.01 and one.cost_usd <= option.cost_usd
            for one in options
            if one is not option
        )
        assert (option in front) != is_beaten


def test_times_that_are_nearly_equal_count_as_equal() -> None:
    base = plan().options[0]
    options = [
        replace(base, seconds=seconds, cost_usd=usd) for seconds, usd in ((100, 5), (100.5, 4), (200, 3.99), (200, 3))
    ]
    assert [option.cost_usd for option in find_front(options)] == [4, 3]
    fastest = replace(plan(), options=tuple(options)).fastest
    assert fastest and fastest.cost_usd == 4


def test_a_time_that_was_scaled_is_corrected_only_by_such_times() -> None:
    observations = [Observation("flights", "m5", 1_000, 3_000, basis="measured") for _ in range(8)]
    plain = {option.instance_type: option for option in plan().options}
    options = {option.instance_type: option for option in plan(observations=observations).options}
    assert options["ml.m5.2xlarge"].seconds > 2 * plain["ml.m5.2xlarge"].seconds
    assert options["ml.m5.2xlarge"].risks == ()
    assert options["ml.m5.4xlarge"] == plain["ml.m5.4xlarge"]
    assert options["ml.m5.4xlarge"].risks == ("no past job on this type: the time is scaled from ml.m5.2xlarge",)


def test_spot_is_an_option_only_if_its_saving_is_known() -> None:
    assert {option.market for option in plan().options} == {"on demand"}
    options = {(option.instance_type, option.market): option for option in plan(quote={"spot_saving": 0.6}).options}
    on_demand, spot = options["ml.m5.2xlarge", "on demand"], options["ml.m5.2xlarge", "spot"]
    assert spot.cost_usd == pytest.approx(on_demand.cost_usd * 0.4) and spot.seconds == on_demand.seconds
    assert any("interrupted is not known" in risk for risk in spot.risks)


def test_types_without_an_option_on_spot_are_named_with_the_reason() -> None:
    def list_reasons(**fields: Any) -> set[str]:
        return {entry.reason for entry in plan(**fields).exclusions if entry.kind == "on demand"}

    (unknown,) = list_reasons()
    assert unknown.startswith("the saving by spot is not known: ")
    (interrupted,) = list_reasons(quote={"spot_saving": 0.6, "interruptions_per_h": 3_000.0})
    assert interrupted == "on spot, it does not end within the limits, or is interrupted too often"
    assert list_reasons(quote={"spot_saving": 0.6}) == set() == list_reasons(market="on demand")


def test_times_of_other_types_say_nothing_about_burstable_ones() -> None:
    quotes = {"ml.t3.xlarge": make_quote(0.2), "ml.m5.xlarge": make_quote(0.23)}
    results = [
        recommend(
            Request(
                build_measured_workload([make_row(instance_type=name, cpu_mean=200, memory_peak=6)], "flights"),
                list_instances("training", list(quotes)),
                {"us-east-1": quotes},
            )
        )
        for name in ("ml.m5.xlarge", "ml.t3.xlarge")
    ]
    assert [entry.instance_type for entry in results[0].exclusions if entry.kind == "burstable"] == ["ml.t3.xlarge"]
    assert "ml.t3.xlarge" in {option.instance_type for option in results[1].options}, "it was measured there"


def test_interruptions_make_spot_longer_and_dearer() -> None:
    calm, rough = (
        next(option for option in plan(quote=quote).options if option.market == "spot")
        for quote in (
            {"spot_saving": 0.6, "interruptions_per_h": 0.0, "spot_h": 100.0},
            {"spot_saving": 0.6, "interruptions_per_h": 1.0},
        )
    )
    assert rough.seconds > 1.1 * calm.seconds and rough.cost_usd > 1.1 * calm.cost_usd
    assert any("at least one interruption with" in risk for risk in rough.risks)
    assert any("no interruption in 100 h" in risk for risk in calm.risks)
    never = plan(quote={"spot_saving": 0.6, "interruptions_per_h": 3_000.0})
    assert {option.market for option in never.options} == {"on demand"}, "it would never end"


def test_only_the_options_of_a_market() -> None:
    known = {"spot_saving": 0.6, "wait_s": 0.0, "spot_wait_s": 600.0, "interruptions_per_h": 0.5}
    on_demand, spot = plan(quote=known, market="on demand"), plan(quote=known, market="spot")
    assert {option.market for option in on_demand.options} == {"on demand"}
    assert {option.market for option in spot.options} == {"spot"} and all(one.is_cost_known for one in spot.options)
    unknown = plan(market="spot")
    assert {option.market for option in unknown.options} == {"spot"}
    assert not any(option.is_cost_known for option in unknown.options)
    assert [option.cost_usd for option in unknown.options] == [option.cost_usd for option in plan().options]
    never = plan(quote={"spot_saving": 0.6, "interruptions_per_h": 3_000.0}, market="spot")
    assert not never.options and {entry.kind for entry in never.exclusions} == {"price", "spot"}
    assert any("a spot job would hardly advance" in entry.reason for entry in never.exclusions)


def test_each_market_has_its_own_wait_and_spot_waits_again_after_an_interruption() -> None:
    quote = {"spot_saving": 0.6, "wait_s": 5.0, "spot_wait_s": 600.0}
    calm = {option.market: option for option in plan(quote=quote).options if option.instance_type == "ml.m5.2xlarge"}
    assert (calm["on demand"].wait_s, calm["spot"].wait_s) == (5, 600)
    rough = plan(quote=quote | {"interruptions_per_h": 0.5}, market="spot").options
    option = next(option for option in rough if option.instance_type == "ml.m5.2xlarge")
    interruptions = option.seconds / 3_600 * 0.5
    assert option.wait_s == pytest.approx(600 * (1 + interruptions), rel=0.01)


def test_the_usual_wait_counts_for_the_deadline() -> None:
    assert plan(Limits(deadline_s=3_601), {"wait_s": 0.0}).options
    late = plan(Limits(deadline_s=3_601), {"wait_s": 3_500.0})
    assert not late.options
    assert any(
        "past the deadline" in risk for option in plan(Limits(deadline_s=3_601)).options for risk in option.risks
    )


def test_savings_plans_are_unknown_or_their_price() -> None:
    known = plan(quote={"plans": {"1y": Price(usd_h=0.3, date=DAY, source="test")}})
    option = next(option for option in known.options if option.instance_type == "ml.m5.2xlarge")
    assert option.plan_usd == {"1y": pytest.approx(0.3), "3y": None}


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(60, 0.01), "The fastest is ml.m5.4xlarge on demand in us-east-1"),
        (Limits(3_000, 0.01), "Within the deadline, the cheapest is ml.m5.4xlarge"),
        (Limits(60, 0.5), "Within the budget, the fastest is"),
    ],
)
def test_a_plan_that_nothing_fits_says_what_would(limits: Limits, text: str) -> None:
    recommendation = plan(limits)
    with pytest.raises(DataError, match="no instance type fits") as error:
        require_option(recommendation)
    assert text in error.value.hint
    assert recommendation.to_record()["cheapest"] is None


def test_a_model_that_fits_nowhere_says_how_many_instances_would() -> None:
    workload = LanguageModelWorkload(7e9, 1e9, counts=(1,))
    instances = list_instances("training", ["ml.g5.xlarge", "ml.g5.48xlarge"])
    request = Request(workload, instances, {"us-east-1": {instance.name: make_quote(1.0) for instance in instances}})
    fits = recommend(request)
    assert [option.instance_type for option in fits.options] == ["ml.g5.48xlarge"]
    with pytest.raises(DataError) as error:
        require_option(recommend(replace(request, instances=instances[1:])))
    assert "ml.g5.xlarge needs" in error.value.hint and "would fit with 8 instances" in error.value.hint


def test_trainium_needs_to_be_named() -> None:
    instances = list_instances("training", ["ml.trn1.32xlarge"])
    request = Request(LanguageModelWorkload(1e9, 1e8), instances, {"r": {"ml.trn1.32xlarge": make_quote(20)}})
    refused = recommend(request).exclusions[0]
    assert refused.kind == "neuron" and "AWS Neuron SDK" in refused.reason
    assert recommend(replace(request, neuron_types={"ml.trn1.32xlarge"})).options


def test_past_jobs_correct_the_time_and_the_cost() -> None:
    observations = [Observation("flights", "m5", 1_000, 2_000, basis="scaled") for _ in range(8)]
    plain, corrected = (
        next(option for option in result.options if option.instance_type == "ml.m5.4xlarge")
        for result in (plan(), plan(observations=observations))
    )
    assert corrected.seconds == pytest.approx(plain.seconds * 2**0.8)
    assert corrected.cost_usd == pytest.approx(plain.cost_usd * 2**0.8)
    assert (corrected.uncorrected_s, corrected.uncorrected_usd) == (plain.seconds, plain.cost_usd)
    assert corrected.high_s < plain.high_s / plain.seconds * corrected.seconds, "the jobs agree, so the band is narrow"


def test_the_errors_of_past_jobs_do_not_make_the_band_of_a_larger_size_narrow() -> None:
    rows = [make_row(n, training_s=100 * n, input_bytes=n * 2**30) for n in (1, 2, 4)]
    past_jobs = [Observation("flights", "m5", 100, 100 * ratio, basis="sized") for ratio in (0.99, 1, 1.01)]
    quotes, instances = {"ml.m5.2xlarge": make_quote(0.461)}, list_instances("training", ["ml.m5.2xlarge"])
    bands = []
    for gib in (3, 40):
        workload = build_measured_workload(rows, "flights", gib * 2**30)
        request = Request(workload, instances, {"us-east-1": quotes}, observations=past_jobs)
        (option,) = recommend(request).options
        bands.append((option.low_s / option.seconds, option.high_s / option.seconds))
        assert option.seconds == pytest.approx(100 * gib) and option.basis == "sized"
    (low, high), (far_low, far_high) = bands
    assert 0.95 < low < 1 < high < 1.05, "the scatter of the past jobs"
    assert (far_low, far_high) == pytest.approx((low / 10, high * 10**GROWTH / 10))


def test_a_formula_is_not_corrected_by_jobs_that_were_predicted_from_past_jobs() -> None:
    instances = list_instances("training", ["ml.p4d.24xlarge"])
    request = Request(LanguageModelWorkload(1e9, 1e8), instances, {"r": {"ml.p4d.24xlarge": make_quote(30)}})
    history = [Observation("x", "p4d", 100, 300, basis="measured") for _ in range(9)]
    plain, other = recommend(request), recommend(replace(request, observations=history))
    assert other.options == plain.options and other.accuracy is None
    formula = recommend(replace(request, observations=[replace(entry, basis="formula") for entry in history]))
    assert formula.options[0].seconds > 1.5 * plain.options[0].seconds and formula.accuracy


def test_quotes_learn_from_the_ledger() -> None:
    price = Price(usd_h=0.461, date=DAY, source="test")
    rows = [make_row(n, spot=True, saving=0.7, interruptions=1, first_capacity_s=60.0 * n) for n in range(1, 4)]
    quote = build_quote(price, [*rows, make_row(9), make_row(10, training_s=0, spot=True)], 0.5, {})
    assert quote.spot_saving == pytest.approx(0.7) and quote.spot_source == "3 past spot job(s)"
    assert quote.interruptions_per_h == pytest.approx(1) and (quote.wait_s, quote.spot_wait_s) == (None, 120)
    table = build_quote(price, [make_row(9)], 0.5, {})
    assert (table.spot_saving, table.spot_source) == (0.5, "tables of prices")
    assert table.interruptions_per_h is None and table.spot_wait_s is None
    assert build_quote(price, [], None, {}).spot_saving is None
    short = [make_row(1, spot=True, training_s=60, interruptions=1)]
    assert build_quote(price, short, None, {}).interruptions_per_h is None, "a minute is no evidence"
