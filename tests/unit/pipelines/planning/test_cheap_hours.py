"""Test when a training that is not urgent starts: by price, by risk, and at the latest."""

import datetime as dt

import pytest

from pipelines.errors import SpecError
from pipelines.planning.cheap_hours import PlannedRun, compute_latest_start, decide_start
from pipelines.planning.spot_prices import HOUR, HourlyPrices, PriceChange, WeeklyPricePattern, tabulate_hours

MONDAY = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
WEEKS_H = 5 * 168
NOON = 12


def build_prices(hour: int = WEEKS_H, last: float | None = None, night: float = 0.05, day: float = 0.1) -> HourlyPrices:
    """Return prices that are lower from 20:00 to 08:00, until the hour that begins `hour` hours after Monday."""
    prices = [day if 8 <= index % 24 < 20 else night for index in range(hour + 1)]
    return HourlyPrices(MONDAY + hour * HOUR, (*prices[:-1], prices[-1] if last is None else last))


def decide(prices: HourlyPrices, slack_h: float, **fields: object):
    """Decide at the begin of the last hour of the prices."""
    start = PlannedRun(**{"latest_start": prices.hour + slack_h * HOUR, "duration_s": 4 * 3_600, **fields})
    return decide_start(prices, start, prices.hour)


def test_at_noon_it_waits_for_the_night_and_at_night_it_starts():
    noon = decide(build_prices(WEEKS_H + NOON), slack_h=24)
    assert not noon.is_start
    assert noon.best_at == MONDAY + (WEEKS_H + 20) * HOUR
    assert noon.expected_usd_h == pytest.approx(0.1)
    assert noon.reason == (
        "price now 0.1000 USD/h, 1.00 times its usual value at this hour; a run of 4 h from now is expected to cost "
        "0.1000 USD/h, and 0.0500 in 8 h: waiting for 2026-04-06 20:00 UTC, latest start 2026-04-07 12:00 UTC"
    )
    night = decide(build_prices(WEEKS_H + 20), slack_h=24)
    assert night.is_start and night.best_at is None
    assert night.reason.endswith(
        "is expected to cost 0.0500 USD/h, and no later run is expected to cost at least 1% less: starting"
    )


def test_it_starts_if_the_cheap_hour_is_after_the_latest_start():
    assert decide(build_prices(WEEKS_H + NOON), slack_h=3).is_start
    assert not decide(build_prices(WEEKS_H + NOON), slack_h=8).is_start, "the negative control"


@pytest.mark.parametrize("slack_h", [0, -1])
def test_it_starts_at_the_latest_start_whatever_the_price_is(slack_h):
    decision = decide(build_prices(WEEKS_H + NOON, last=9.0), slack_h)
    assert decision.is_start and decision.reason.startswith("the latest start, 2026-04-06 1")


def test_a_price_above_its_usual_value_is_expected_to_fall():
    hour = 13 * 168
    jumps = list(build_prices(hour, night=0.1).usd_h)
    for index in range(100, hour - 400, 500):  # each jump fades within three hours
        jumps[index : index + 3] = [0.2, 0.15, 0.12]
    calm, jump = (HourlyPrices(MONDAY + hour * HOUR, (*jumps[:-1], price)) for price in (0.1, 0.2))
    assert decide(calm, slack_h=24).is_start
    decision = decide(jump, slack_h=24)
    assert not decision.is_start and "1.99 times its usual value" in decision.reason
    assert WeeklyPricePattern(jump, 4).predict_run_usd_h(12) == pytest.approx(0.1, rel=0.05)


def test_a_jump_fades_during_a_long_run():
    hour = 13 * 168
    jumps = list(build_prices(hour, night=0.1).usd_h)
    for index in range(100, hour - 400, 500):
        jumps[index : index + 3] = [0.2, 0.15, 0.12]
    jump = HourlyPrices(MONDAY + hour * HOUR, (*jumps[:-1], 0.2))
    # Only the first hours of the run are expensive, so a wait saves next to nothing.
    assert WeeklyPricePattern(jump, 100).predict_run_usd_h(0) == pytest.approx(0.1, rel=0.05)
    assert decide(jump, slack_h=24, duration_s=100 * 3_600).expected_usd_h < 0.11
    assert WeeklyPricePattern(jump, 1).predict_run_usd_h(0) == pytest.approx(0.2, rel=0.05), "the control"


def test_a_lower_quantile_expects_more_luck_and_waits_where_the_median_starts():
    prices = list(build_prices(night=0.1).usd_h)
    for week in (1, 3):  # two of the last four Mondays had a cheap hour at noon, which is no pattern
        prices[week * 168 + NOON : week * 168 + NOON + 4] = [0.06] * 4
    history = HourlyPrices(MONDAY + WEEKS_H * HOUR, prices)
    assert decide(history, slack_h=24, quantile=0.9).is_start
    assert not decide(history, slack_h=24, quantile=0.05).is_start


def test_risk_is_the_share_of_past_runs_in_which_the_price_rose():
    prices = build_prices(WEEKS_H + 5)  # at 08:00 the price doubles, so a run of 4 h from 05:00 on contains the rise
    course = WeeklyPricePattern(prices, 4)
    assert (course.compute_risk(0), course.compute_risk(3)) == (1.0, 0.0)
    decision = decide(prices, slack_h=24, criterion="risk")
    assert decision.best_at == MONDAY + (WEEKS_H + 8) * HOUR
    assert (
        "in 100% of past runs of 4 h the price rose by 20% from this hour on; after a wait of 3 h, in 0%"
        in decision.reason
    )
    calm = decide(build_prices(WEEKS_H + NOON), slack_h=24, criterion="risk")
    assert calm.is_start and calm.reason.endswith("and no later hour is safer: starting")
    shortage = decide(build_prices(WEEKS_H + NOON, last=0.13), slack_h=24, criterion="risk")
    assert not shortage.is_start and "the price is as high as in a shortage" in shortage.reason


def test_a_short_history_is_no_reason_to_wait():
    decision = decide(build_prices(200), slack_h=24)
    assert decision.is_start
    assert decision.reason == "the history has 201 h of prices, and a prediction needs 340 h: starting at once"
    shortest = build_prices(339)
    assert decide(shortest, slack_h=24).expected_usd_h is not None, "every hour of the week has a value"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"quantile": -0.1}, "quantile must be above 0 and below 1, not -0.1. 0.5 expects the usual price."),
        ({"quantile": float("nan")}, "quantile must be above 0 and below 1, not nan"),
        ({"duration_s": 0}, "duration_s must be more than 0 and at most 28 days, not 0"),
        ({"duration_s": 29 * 86_400}, "duration_s must be more than 0 and at most 28 days, not 2.5056e+06"),
        ({"criterion": "luck"}, "criterion must be price or risk, not 'luck'"),
    ],
)
def test_wrong_values_are_refused(fields, message):
    with pytest.raises(SpecError) as error:
        PlannedRun(**{"latest_start": MONDAY, "duration_s": 60, **fields}).check()
    assert message in str(error.value)
    PlannedRun(MONDAY, 60).check()


def test_latest_start_is_the_deadline_without_the_run():
    assert compute_latest_start(MONDAY, 3_600) == MONDAY - HOUR


def test_hours_have_the_mean_of_the_zones_that_have_a_price():
    changes = [
        PriceChange("b", MONDAY + 1.5 * HOUR, 0.3),
        PriceChange("a", MONDAY + 0.5 * HOUR, 0.1),
        PriceChange("a", MONDAY + 3.9 * HOUR, 0.7),
        PriceChange("a", MONDAY + 9 * HOUR, 99.0),
    ]
    prices = tabulate_hours(changes, MONDAY + 3.95 * HOUR)
    assert prices.hour == MONDAY + 3 * HOUR
    assert prices.usd_h == pytest.approx((0.1, 0.2, 0.2, 0.5))
    assert tabulate_hours(changes, MONDAY).usd_h == ()


@pytest.mark.parametrize("usd_h", [0.0, -0.1, float("nan"), float("inf")])
def test_a_price_that_is_no_price_is_ignored(usd_h):
    now = MONDAY + WEEKS_H * HOUR
    changes = [PriceChange("a", MONDAY + index * HOUR, 0.1 if index % 50 else usd_h) for index in range(WEEKS_H)]
    prices = tabulate_hours(changes, now)
    assert set(prices.usd_h) == {0.1}
    assert decide_start(prices, PlannedRun(now + HOUR, 3_600), now).is_start
    assert tabulate_hours([PriceChange("a", MONDAY, usd_h)], now).usd_h == ()
