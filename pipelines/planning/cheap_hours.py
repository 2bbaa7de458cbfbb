"""Decide when a training that is not urgent starts: now, or in an hour that is expected to be cheaper or safer.

The decision depends only on the history of prices and on the clock. So a process that was killed and started again
decides the same. ADR 46 (docs/explanation/adr) compares this rule with others.

Uses only the standard library, because Airflow's triggerer imports it.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Literal, get_args

from pipelines.costs.job_records import LONGEST_TRAINING_S
from pipelines.errors import SpecError
from pipelines.planning.spot_prices import HOUR, RISE, WEEK_H, HourlyPrices, WeeklyPricePattern

Criterion = Literal["price", "risk"]
"""What has to be low: the expected price of the run, or the risk of an interruption."""
MIN_SAVING = 0.01
"""Smallest saving for which the start waits, as a share of the price; if the risk decides, the smallest difference."""


@dataclass(frozen=True)
class PlannedRun:
    """A run that has not started, and when it must start at the latest.

    Args:
        latest_start: latest start, UTC.
        duration_s: expected time of the run, seconds.
        criterion: what has to be low.
        quantile: above 0 and below 1. Past runs that began in the same hour of the week predict the price of a later
            start: it is this quantile of their prices. 0.5 predicts the usual price. A lower value makes the run wait
            longer.
    """

    latest_start: dt.datetime
    duration_s: float
    criterion: Criterion = "price"
    quantile: float = 0.5

    @property
    def run_h(self) -> int:
        """Hours of the run, rounded up."""
        return max(1, math.ceil(self.duration_s / HOUR.total_seconds()))

    def check(self) -> None:
        """Check the values.

        Raises:
            SpecError: a value is out of range. A retry cannot help.
        """
        if not 0 < self.duration_s <= LONGEST_TRAINING_S:
            raise SpecError(
                f"duration_s must be more than 0 and at most 28 days, not {self.duration_s:g}.",
                "Give the expected seconds of the training.",
            )
        if not 0 < self.quantile < 1:
            raise SpecError(
                f"quantile must be above 0 and below 1, not {self.quantile:g}.", "0.5 expects the usual price."
            )
        if self.criterion not in get_args(Criterion):
            raise SpecError(f"criterion must be price or risk, not {self.criterion!r}.")


@dataclass(frozen=True)
class Decision:
    """Whether to start now, and why."""

    is_start: bool
    """Whether to start now."""
    reason: str
    """The numbers of the decision, in one line."""
    usd_h: float | None
    """Price of an instance now, US dollars an hour; None if it is not known."""
    expected_usd_h: float | None
    """Expected mean price of a run that starts now, US dollars an hour; None if it was not predicted: the latest start
    is reached, or the history is too short."""
    best_at: dt.datetime | None
    """Beginning of the hour for which the run waits, UTC; None if the run starts now."""


def compute_latest_start(deadline: dt.datetime, duration_s: float) -> dt.datetime:
    """Return the latest start of a run that has to end at a deadline."""
    return deadline - dt.timedelta(seconds=duration_s)


def decide_start(prices: HourlyPrices, run: PlannedRun, now: dt.datetime) -> Decision:
    """Decide whether a run starts now, or waits for a later hour.

    The run starts now if the latest start is reached, if no hour until the latest start is expected to be better by
    `MIN_SAVING`, or if the history is too short for a prediction.

    The next decision, with newer prices, may differ (certainty-equivalent control: Bertsekas 2017, Dynamic Programming
    and Optimal Control, section 6.2). `WeeklyPricePattern` predicts the prices.

    Args:
        prices: prices until now.
        run: the run.
        now: the present, UTC.
    """
    usd_h = prices.usd_h[-1] if prices.usd_h else None
    if now >= run.latest_start:
        reason = f"the latest start, {_format_time(run.latest_start)}, is reached"
        return Decision(is_start=True, reason=reason, usd_h=usd_h, expected_usd_h=None, best_at=None)
    needed_h = 2 * WEEK_H + run.run_h
    if len(prices.usd_h) < needed_h:
        reason = f"the history has {len(prices.usd_h)} h of prices, and a prediction needs {needed_h} h"
        reason = f"{reason}: starting at once"
        return Decision(is_start=True, reason=reason, usd_h=usd_h, expected_usd_h=None, best_at=None)
    pattern = WeeklyPricePattern(prices, run.run_h)
    waits_h = range(1, int((run.latest_start - prices.hour) / HOUR) + 1)
    decide = _decide_by_price if run.criterion == "price" else _decide_by_risk
    best_h, comparison = decide(pattern, run, waits_h)
    expected_usd_h, best_at = pattern.predict_run_usd_h(0), prices.hour + best_h * HOUR
    price = f"price now {prices.usd_h[-1]:.4f} USD/h, {pattern.deviation:.2f} times its usual value at this hour"
    action = (
        f"waiting for {_format_time(best_at)}, latest start {_format_time(run.latest_start)}" if best_h else "starting"
    )
    return Decision(not best_h, f"{price}; {comparison}: {action}", usd_h, expected_usd_h, best_at if best_h else None)


def _decide_by_price(pattern: WeeklyPricePattern, run: PlannedRun, waits_h: range) -> tuple[int, str]:
    """Return how many hours to wait (0: start now), and the comparison of the prices in words."""
    now_usd_h = pattern.predict_run_usd_h(0)
    predictions = {wait_h: pattern.predict_run_usd_h(wait_h, run.quantile) for wait_h in waits_h}
    best_h = min(predictions, key=lambda wait_h: predictions[wait_h], default=0)
    if not best_h:
        return 0, "no hour is left before the latest start"
    now_text = f"a run of {run.run_h} h from now is expected to cost {now_usd_h:.4f} USD/h"
    best_usd_h = predictions[best_h]
    if best_usd_h <= (1 - MIN_SAVING) * now_usd_h:
        return best_h, f"{now_text}, and {best_usd_h:.4f} in {best_h} h"
    return 0, f"{now_text}, and no later run is expected to cost at least {MIN_SAVING:.0%} less"


def _decide_by_risk(pattern: WeeklyPricePattern, run: PlannedRun, waits_h: range) -> tuple[int, str]:
    """Return how many hours to wait (0: start now), and the comparison of the risks in words."""
    is_scarce = pattern.deviation >= RISE
    now_risk = 1.0 if is_scarce else pattern.compute_risk(0)
    risks = {wait_h: pattern.compute_risk(wait_h) for wait_h in waits_h}
    best_h = min(risks, key=lambda wait_h: risks[wait_h], default=0)
    if not best_h:
        return 0, "no hour is left before the latest start"
    unit = f"of past runs of {run.run_h} h the price rose by {RISE - 1:.0%}"
    now_text = "the price is as high as in a shortage" if is_scarce else f"in {now_risk:.0%} {unit} from this hour on"
    if risks[best_h] <= now_risk - MIN_SAVING:
        unit_text = f" {unit}" if is_scarce else ""
        return best_h, f"{now_text}; after a wait of {best_h} h, in {risks[best_h]:.0%}{unit_text}"
    return 0, f"{now_text}, and no later hour is safer"


def _format_time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
