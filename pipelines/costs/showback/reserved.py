"""Add to each row of the ledgers the part of its cost that the commitments of section `showback` cover."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from pipelines.costs.charges import DIGITS, format_usd
from pipelines.costs.commitments.coverage import Coverage, FindSaving, cover_costs
from pipelines.costs.commitments.stated import StatedCommitment
from pipelines.costs.prices import read_region_prices

COLUMN = "reserved_usd"
"""The added column: covered cost of the row at on-demand prices, USD; None if the saving of a plan is not known."""
NO_COMMITMENT = "no commitment stated"
MAX_TYPES = 5
"""Largest number of instance types in a sentence."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class CommitmentUse:
    """The used and the unused part of the stated commitments, for all payers together: a plan covers the whole account.

    Attributes:
        committed_usd: sum of the commitments of all hours up to yesterday, USD.
        unused_usd: part of this sum that was not used, and is lost, USD.
        unpriced_usd: cost of reported rows whose price with a plan is not known, USD.
        unpriced_types: instance types and regions of these rows.
    """

    committed_usd: float
    unused_usd: float
    unpriced_usd: float
    unpriced_types: Sequence[str]

    def to_record(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)

    def list_sentences(self) -> list[str]:
        """Describe the unused commitment, and what is not known, in sentences without a full stop."""
        sentences = [
            f"Unused commitment, all payers together, up to yesterday: {format_usd(self.unused_usd)} "
            f"of {format_usd(self.committed_usd)}"
        ]
        if self.unpriced_types:
            other_count = len(self.unpriced_types) - MAX_TYPES
            names = [*self.unpriced_types[:MAX_TYPES], *([f"{other_count} other type(s)"] if other_count > 0 else [])]
            sentences.append(
                f"No price with a savings plan is known for {', '.join(names)}: "
                f"{format_usd(self.unpriced_usd)} are left out of the reserved share, though they may have used a part "
                "of the commitment. Give the discount of the commitment, or run `python -m pipelines prices refresh`"
            )
        return sentences


def add_reserved_costs(
    rows: Sequence[Row], commitments: Sequence[StatedCommitment], now: dt.datetime
) -> tuple[Sequence[Row], Coverage | None]:
    """Return the rows with the column `reserved_usd`, and what the commitments cover.

    Args:
        rows: all rows of both ledgers, which `check_rows` has accepted.
        commitments: the stated commitments. Without any, return the unchanged rows and None.
        now: the current moment.

    Raises:
        DataError: a commitment has no discount, and a table of prices is not valid. A retry cannot help.
    """
    if not commitments:
        return rows, None
    coverage = cover_costs(rows, commitments, _build_saving_finder(), now)
    return [{**row, COLUMN: usd} for row, usd in zip(rows, coverage.reserved_usd, strict=True)], coverage


def summarize_use(coverage: Coverage, rows: Sequence[Row], month: str = "") -> CommitmentUse:
    """Sum the commitments of a month and their unused part.

    Args:
        coverage: what the commitments cover.
        rows: reported rows, with `reserved_usd`.
        month: the month, YYYY-MM; empty: all months.
    """
    unpriced_rows = [row for row in rows if row[COLUMN] is None]
    committed_usd, unused_usd = (
        round(sum(usd for name, usd in amounts.items() if month in ("", name)), DIGITS)
        for amounts in (coverage.committed_usd, coverage.unused_usd)
    )
    return CommitmentUse(
        committed_usd=committed_usd,
        unused_usd=unused_usd,
        unpriced_usd=round(sum(row["cost_usd"] for row in unpriced_rows), DIGITS),
        unpriced_types=sorted({f"{row['instance_type']} in {row['region']}" for row in unpriced_rows}),
    )


def _build_saving_finder() -> FindSaving:
    """Build the function that finds the saving of a commitment on a row: its discount, else the saving in the tables.

    The tables have the plan's prices of training. On endpoints, the same saving in percent is assumed.
    """
    read_prices = lru_cache(maxsize=None)(read_region_prices)

    def find_saving(commitment: StatedCommitment, row: Row) -> float | None:
        if commitment.discount is not None:
            return commitment.discount
        prices, name = read_prices(row["region"]), row["instance_type"]
        plan_price, price = prices.plans[commitment.term].get(name), prices.on_demand.get(name)
        if plan_price is None or price is None or plan_price.usd_h >= price.usd_h:
            return None
        return 1 - plan_price.usd_h / price.usd_h

    return find_saving
