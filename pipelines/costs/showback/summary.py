"""Summarize the costs by payer: groups with their shares, anomalies of the last days, a table, and a CSV file."""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from pipelines.costs.charges import format_usd
from pipelines.costs.daily.anomalies import JudgedDay, judge_days
from pipelines.costs.daily.days import sum_days_by_project
from pipelines.costs.endpoints.running import get_month_bounds
from pipelines.costs.report import UNALLOCATED, group_rows
from pipelines.costs.row_checks import check_rows
from pipelines.costs.showback.reserved import NO_COMMITMENT, CommitmentUse
from pipelines.costs.showback.shares import sum_shares
from pipelines.errors import SpecError
from pipelines.escaping import escape
from pipelines.system.files import replace_file

SHARES = ("spot", "on_demand", "endpoints", "reserved", "idle")
UNUSED_COLUMN = "unused_commitment_usd"
UNUSED_LABEL = "unused commitment"
ANOMALY_DAYS = 28
"""Number of whole days before today whose anomalies are listed."""
FORMULA = re.compile(r"(^|;)(\s*)(?=[-=+@\uff1d\uff0b\uff0d\uff20])")
"""Beginning of a text that a spreadsheet would run as a formula. The part after a `;` may be a text of its own, because
`;` separates columns in many countries. The last four characters are the wide forms of =, +, - and @: they start a
formula, too."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Showback:
    """Who pays for what.

    Attributes:
        keys: grouping keys.
        groups: groups of both ledgers, the most expensive one first: the keys, `share` of the total, and what
            `sum_shares` returns.
        total: the sums of all rows.
        anomalies: each project with its anomalies in the last days.
        commitment_use: used and unused part of the stated commitments; None if none is stated.
    """

    keys: Sequence[str]
    groups: Sequence[dict[str, Any]]
    total: dict[str, Any]
    anomalies: Mapping[str, Sequence[JudgedDay]]
    commitment_use: CommitmentUse | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the groups, the total, the utilization of the commitments and the anomalies as JSON values."""
        groups = {"groups": list(self.groups), "total": self.total}
        use = self.commitment_use.to_record() if self.commitment_use else NO_COMMITMENT
        return {"payers": groups, "commitments": use, "anomalies": self.list_anomaly_sentences()}

    def list_anomaly_sentences(self) -> list[str]:
        """Describe each anomaly in a sentence, the oldest day first."""
        return describe_anomalies(self.anomalies)


def summarize(rows: Sequence[Row], keys: Sequence[str], commitment_use: CommitmentUse | None = None) -> Showback:
    """Group the allocated rows of both ledgers, and sum each group. The anomalies of the result are empty.

    Args:
        rows: rows to report.
        keys: grouping keys.
        commitment_use: used and unused part of the stated commitments; None if none is stated.

    Raises:
        DataError: a row of a ledger is damaged. A retry cannot help.
    """
    check_rows(rows)
    total = sum_shares(rows)
    groups = group_rows(rows, keys, sum_shares)
    for group in groups:
        group["share"] = group["cost_usd"] / total["cost_usd"] if total["cost_usd"] else None
    groups = sorted(groups, key=lambda group: -group["cost_usd"])
    return Showback(keys, groups, total, anomalies={}, commitment_use=commitment_use)


def find_last_whole_day(now: dt.datetime, month: str = "") -> dt.date:
    """Return the last whole day before a moment, in UTC; if a month (YYYY-MM) is given, at most its last day."""
    yesterday = now.astimezone(dt.UTC).date() - dt.timedelta(days=1)
    return min(yesterday, get_month_bounds(month)[1].date() - dt.timedelta(days=1)) if month else yesterday


def find_anomalies(rows: Iterable[Row], now: dt.datetime, month: str = "") -> dict[str, list[JudgedDay]]:
    """Find the anomalies of each project in the last `ANOMALY_DAYS` whole days, or in the whole days of a month.

    Args:
        rows: all rows of both ledgers, since a day is judged by the weeks before it.
        now: the current moment.
        month: month, YYYY-MM; empty: the last days.
    """
    last = find_last_whole_day(now, month)
    count = max((last - get_month_bounds(month)[0].date()).days + 1, 0) if month else ANOMALY_DAYS
    judged_days = {
        project: [day for day in judge_days(costs, count) if day.is_anomaly]
        for project, costs in sum_days_by_project(rows, last).items()
    }
    return {project: days for project, days in judged_days.items() if days}


def describe_anomalies(anomalies: Mapping[str, Sequence[JudgedDay]]) -> list[str]:
    """Describe each anomaly in a sentence, the oldest day first."""
    days = ((project, day) for project, days in anomalies.items() for day in days)
    return [describe_anomaly(*item) for item in sorted(days, key=lambda item: (item[1].day, item[0]))]


def describe_anomaly(project: str, day: JudgedDay) -> str:
    """Describe a day that cost far more than usual."""
    if day.expected_cost is None:
        raise ValueError("a day that was not judged is not an anomaly")
    return (
        f"{project or UNALLOCATED} cost {format_usd(day.usd)} on {day.day}; usual for this weekday is "
        f"{format_usd(day.expected_cost.usd)}, and more than {format_usd(day.expected_cost.limit_usd)} is an anomaly"
    )


def build_showback_table(showback: Showback) -> Table:
    """Build the table of the groups and their total."""
    reserved = "part that the stated commitments cover" if showback.commitment_use else NO_COMMITMENT
    idle = "the cost of unused GPUs, or of vCPUs where there are none, as a share of the costs with a known utilization"
    caption = f"reserved: {reserved}; idle: {idle}."
    table = Table(title="Who pays", caption=caption, caption_justify="left")
    for name in showback.keys:
        table.add_column(name.replace("_", " "))
    for name in ("cost\nUSD", "share\n%", "spot\n%", "on demand\n%", "endpoints\n%", "reserved\n%", "idle\n%"):
        table.add_column(name, justify="right")
    digits = 2 if showback.total["cost_usd"] >= 10 else 4
    for group in showback.groups:
        table.add_row(*(escape(group[name] or "-") for name in showback.keys), *_format_cells(group, digits))
    table.add_section()
    cells = _format_cells({**showback.total, "share": 1.0}, digits)
    table.add_row("all", *([""] * (len(showback.keys) - 1)), *cells, style="bold")
    return table


def write_csv(path: Path, showback: Showback) -> None:
    """Write the groups to a CSV file, replacing an existing file. The cell of an unknown share is empty.

    If a commitment is stated, a last row has the unused commitment of all payers, because no single payer pays for it.

    Raises:
        SpecError: the file cannot be written. A retry cannot help.
    """
    use = showback.commitment_use
    names = [*showback.keys, *(name for name in showback.total if name not in SHARES), "share", *SHARES]
    try:
        with replace_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*names, UNUSED_COLUMN] if use else names)
            writer.writeheader()
            writer.writerows({name: _format_value(group[name]) for name in names} for group in showback.groups)
            if use:
                writer.writerow({showback.keys[0]: UNUSED_LABEL, UNUSED_COLUMN: use.unused_usd})
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}.", "Give a file that can be written.") from None


def _format_value(value: Any) -> Any:
    """Escape a text. If it begins like a formula, it gets an apostrophe, because a spreadsheet would run it."""
    return FORMULA.sub(r"\1\2'", escape(value)) if isinstance(value, str) else value


def _format_cells(figures: Row, digits: int) -> list[str]:
    shares = ("-" if figures[name] is None else f"{100 * figures[name]:.1f}" for name in ("share", *SHARES))
    return [f"{figures['cost_usd']:,.{digits}f}", *shares]
