"""Parse and check the limits on the time and the cost of a planned training."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass

from pipelines.costs.budgets import TOLERANCE_USD
from pipelines.costs.charges import compute_worst_case_usd
from pipelines.errors import SpecError

DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(m|min|h|d)")
AMOUNT = re.compile(
    r"-?([0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?|([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?)", re.IGNORECASE
)
"""An amount of money. A comma may only separate thousands: 500,00 is ambiguous, because it means 500 in many
countries, and does not match."""
UNIT_S = {"m": 60, "min": 60, "h": 3_600, "d": 86_400}
MAX_USD = 1e9
RUN_BUDGET, MONTH_BUDGET = "the budget", "what is left of the month's budget"
"""Names of the budgets that the operator compares with the worst case of a job."""
MAX_DAYS = 3_650
"""Longest time until a deadline, days. A longer time is refused as a mistake."""


@dataclass(frozen=True)
class Limits:
    """The limits of a training; None: no limit. The module `checks` applies them, and also the limits of SageMaker.

    Attributes:
        deadline_s: seconds until the training must be done.
        budget_usd: highest cost, USD. With `max_run_s`, it limits the worst-case cost, too: the operator refuses to
            start a job whose worst case costs more.
        max_run_s: seconds of training after which SageMaker stops the job.
        max_wait_s: seconds after its creation at which a spot job is stopped.
        month_left_usd: what is left of the project's monthly budget, USD; 0 or less if nothing is left. It limits only
            the worst-case cost, so without `max_run_s` it excludes nothing.
    """

    deadline_s: float | None = None
    budget_usd: float | None = None
    max_run_s: float | None = None
    max_wait_s: float | None = None
    month_left_usd: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            SpecError: the budget is not a positive amount, or the deadline is more than `MAX_DAYS` away.
                A retry cannot help.
        """
        if self.deadline_s is not None and not self.deadline_s <= MAX_DAYS * UNIT_S["d"]:
            raise SpecError(f"the deadline must be within {MAX_DAYS:,} days.", "Give an earlier one, such as 24h.")
        if self.budget_usd is not None and not (0 < self.budget_usd <= MAX_USD and math.isfinite(self.budget_usd)):
            raise SpecError(f"the budget must be more than 0 and at most {MAX_USD:g} USD, not {self.budget_usd:g}.")

    def is_in_budget(self, cost_usd: float) -> bool:
        """Return whether a cost is within the budget of the training."""
        return self.budget_usd is None or cost_usd <= self.budget_usd + TOLERANCE_USD

    def list_worst_case_budgets(self) -> dict[str, float]:
        """Return the budgets that limit the worst-case cost of a job, USD, by name; empty without `max_run_s`."""
        budgets = {RUN_BUDGET: self.budget_usd, MONTH_BUDGET: self.month_left_usd}
        return {name: usd for name, usd in budgets.items() if usd is not None and self.max_run_s is not None}

    def compute_worst_case_usd(self, price_usd_h: float, count: int) -> float:
        """Compute the highest cost of a job, USD: all of `max_run_s` at the price on demand; 0 without `max_run_s`."""
        return compute_worst_case_usd(price_usd_h, count, math.ceil(self.max_run_s or 0))

    def describe(self) -> str:
        """Return the limits in words."""
        texts = [
            f"done within {format_duration(self.deadline_s)}" if self.deadline_s is not None else "",
            f"at most {self.budget_usd:,.2f} USD" if self.budget_usd is not None else "",
            self._describe_month(),
            f"max_run_s {self.max_run_s:g}" if self.max_run_s is not None else "",
            f"max_wait_s {self.max_wait_s:g}" if self.max_wait_s is not None else "",
        ]
        return ", ".join(filter(None, texts)) or "no limits"

    def _describe_month(self) -> str:
        if self.month_left_usd is None:
            return ""
        return f"at most the {max(0.0, self.month_left_usd):,.2f} USD left of the month's budget"


def parse_deadline(text: str, now: dt.datetime) -> float | None:
    """Return the seconds until a deadline; None for an empty text.

    Args:
        text: a duration such as 90m, 24h or 3d; a date, which means the end of this day in UTC; or a time in
            ISO 8601, in UTC if it has no offset.
        now: current time.

    Raises:
        SpecError: the text is none of these, or the deadline is past. A retry cannot help.
    """
    text = str(text or "").strip()
    if not text:
        return None
    match = DURATION.fullmatch(text)
    seconds = float(match[1]) * UNIT_S[match[2]] if match else (_parse_moment(text) - now).total_seconds()
    if seconds <= 0:
        raise SpecError(f"the deadline {text} is in the past.", "Give a later one, or a duration such as 24h.")
    return seconds


def parse_budget(text: str) -> float | None:
    """Return an amount of USD; None for an empty text.

    Raises:
        SpecError: the text is not an amount, is ambiguous, or has another currency. A retry cannot help.
    """
    amount = str(text or "").strip()
    if not amount:
        return None
    number = amount.removesuffix("USD").removeprefix("$").strip()
    if AMOUNT.fullmatch(number) and not number.startswith("0,"):
        return float(number.replace(",", ""))
    if "," in number and not number.strip("0123456789,."):
        raise SpecError(f"the budget {text!r} is ambiguous.", "Write 500.00 or 1,500: a comma separates thousands.")
    raise SpecError(f"the budget {text!r} is not an amount of USD.", "For example 500: all prices are in USD.")


def format_duration(seconds: float) -> str:
    """Format a duration in days (from 2 days on), hours, minutes, or seconds (below a minute)."""
    for min_s, unit in ((86_400 * 2, "d"), (3_600, "h"), (60, "min")):
        if seconds >= min_s:
            return f"{seconds / UNIT_S[unit]:.1f} {unit}"
    return f"{seconds:.0f} s"


def _parse_moment(text: str) -> dt.datetime:
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return dt.datetime.combine(dt.date.fromisoformat(text), dt.time.max, dt.UTC)
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise SpecError(
            f"the deadline {text!r} is neither a duration nor a time.", "For example 24h, 3d or 2026-12-01T18:00."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
