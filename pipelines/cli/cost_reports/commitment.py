"""`python -m pipelines costs commitment`: find the savings-plan commitment that would have been best."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.cost_reports.showback import read_allocated_rows
from pipelines.cli.options import JsonOption
from pipelines.cli.terminal import write_json, write_line
from pipelines.errors import DataError, SpecError

if TYPE_CHECKING:
    from pipelines.costs.commitments.commitment import Commitment

DAY_H = 24
"""Hours of a day."""
MIN_DAYS = 7
"""Smallest number of days from which a commitment is computed: a week has all weekdays."""


def find_best_commitment(
    discount: Annotated[
        float | None, typer.Option(help="Discount of the plan, 0 to 1: 0.3 is 30 % below on demand. Required.")
    ] = None,
    days: Annotated[int, typer.Option(min=MIN_DAYS, max=3_660, help="Number of whole days to examine.")] = 90,
    fall: Annotated[float, typer.Option(help="For the risk: usage falls by this share.")] = round(1 / 3, 4),
    project: Annotated[str, typer.Option(help="Only jobs and endpoints of this project.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Find the savings-plan commitment that would have cost least on the last days of the ledgers, and its risk.

    A commitment covers instances on demand: jobs without spot, and endpoints with instances.
    """
    from pipelines.costs.commitments.commitment import find_commitment
    from pipelines.costs.commitments.hours import spread_costs
    from pipelines.costs.daily.days import get_day
    from pipelines.costs.row_checks import check_rows

    if discount is None:
        raise SpecError("the discount of the savings plan is not known.", "Give --discount, such as 0.3 for 30 %.")
    for name, value, is_valid in (("--discount", discount, 0 < discount < 1), ("--fall", fall, 0 <= fall <= 1)):
        if not is_valid:
            raise SpecError(f"{name} {value:g} is not a share.", "Give a number between 0 and 1, such as 0.3 for 30 %.")
    rows = [row for ledger_rows in read_allocated_rows() for row in ledger_rows if project in ("", row["project"])]
    check_rows(rows)
    today = dt.datetime.combine(dt.datetime.now(dt.UTC).date(), dt.time(), dt.UTC)
    known_days = min(days, max(((today.date() - get_day(row)).days for row in rows), default=0))
    if known_days < MIN_DAYS:
        raise DataError(f"there are costs of {known_days} whole day(s).", f"Wait until there are {MIN_DAYS}.")
    costs = spread_costs(rows, today - dt.timedelta(known_days), known_days * DAY_H)
    commitment = find_commitment(costs, discount, fall)
    if as_json:
        write_json({"days": known_days, **commitment.to_record()})
        return
    for line in format_commitment(commitment, known_days, days):
        write_line(line)


def format_commitment(commitment: Commitment, known_days: int, days: int) -> list[str]:
    """Describe a commitment and its risk in lines.

    Args:
        commitment: the commitment.
        known_days: number of whole days from which it was computed.
        days: number of days that were requested.
    """
    from pipelines.costs.charges import format_usd

    outcome, risk, backtest = commitment.outcome, commitment.outcome_if_use_falls, commitment.backtest
    note = "" if known_days == days else f" ({days} were requested; there are no more)"
    on_demand_text = format_usd(outcome.on_demand_usd)
    heading = f"Last {known_days} whole days{note}: {on_demand_text} for instances on demand; spot is not included."
    if not commitment.usd_h:
        return [
            heading,
            f"No commitment pays off at a discount of {commitment.discount:.0%}: too many hours without usage.",
        ]
    return [
        heading,
        f"Best commitment: {commitment.usd_h:.4f} USD an hour at a discount of {commitment.discount:.0%}.",
        f"It would have saved {format_usd(outcome.saved_usd)} ({format_usd(commitment.saved_usd_year)} a year): "
        f"{outcome.utilization or 0:.0%} of the commitment would have been used, and {outcome.coverage or 0:.0%} of "
        "the cost would have been covered.",
        f"Risk: if usage falls by {commitment.fall:.0%}, the commitment {_describe_saving(risk.saved_usd)}. From a "
        f"fall of {commitment.break_even_fall or 0:.0%} on, it saves nothing, but must be paid to the end of its term.",
        f"Test: in the second half of these days, the best commitment of the first half "
        f"{_describe_saving(backtest.saved_usd)}.",
    ]


def _describe_saving(saved_usd: float) -> str:
    from pipelines.costs.charges import format_usd

    return f"saves {format_usd(saved_usd)}" if saved_usd >= 0 else f"costs {format_usd(-saved_usd)} more than on demand"
