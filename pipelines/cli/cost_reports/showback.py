"""Report who pays for the costs, for `python -m pipelines costs report`: table, CSV file, and HTML page.

A commitment is what a team has promised AWS to pay in each hour (a savings plan), as params.yaml states it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.cli.terminal import make_console, write_line
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.costs.commitments.coverage import Coverage
    from pipelines.costs.showback.summary import Showback

Rows = Sequence[Mapping[str, Any]]


def read_allocated_rows() -> tuple[Rows, Rows]:
    """Read all rows of the ledgers of jobs and of endpoints, with who pays for them.

    Raises:
        SpecError: section `showback` of params.yaml is not valid. A retry cannot help.
        DataError: a row of a ledger has no time. A retry cannot help.
        ServiceError, ConflictError: the lake does not answer. A retry can help.
    """
    from pipelines.costs.endpoints.ledger import EndpointLedger
    from pipelines.costs.ledger import Ledger
    from pipelines.costs.showback.allocation import allocate_rows
    from pipelines.costs.showback.policy import load_policy

    policy = load_policy()
    return allocate_rows(Ledger.open().read_rows(), policy), allocate_rows(EndpointLedger.open().read_rows(), policy)


def read_reserved_rows() -> tuple[Rows, Rows, Coverage | None]:
    """Read all rows as `read_allocated_rows`, and add to each the part of its cost that the stated commitments cover.

    If params.yaml states no commitment, nothing is added.

    Returns:
        The rows of jobs, those of endpoints, and what the commitments cover, with their unused part; None for the last
        if params.yaml states no commitment.

    Raises:
        SpecError: section `showback` of params.yaml is not valid. A retry cannot help.
        DataError: a row of a ledger is damaged, or a table of prices is not valid. A retry cannot help.
        ServiceError, ConflictError: the lake does not answer. A retry can help.
    """
    from pipelines.costs.row_checks import check_rows
    from pipelines.costs.showback.policy import load_policy
    from pipelines.costs.showback.reserved import add_reserved_costs

    all_rows = [row for ledger_rows in read_allocated_rows() for row in ledger_rows]
    check_rows(all_rows)
    rows, coverage = add_reserved_costs(all_rows, load_policy().commitments, dt.datetime.now(dt.UTC))
    # Only rows of endpoints have the column `begin`.
    return [row for row in rows if "begin" not in row], [row for row in rows if "begin" in row], coverage


def select_rows(rows: Rows, month: str, project: str) -> Rows:
    """Return the rows of a month and of a project; an empty argument selects all."""
    return [row for row in rows if month in ("", f"{row['date']:%Y-%m}") and project in ("", row["project"])]


def build_showback(
    rows: Rows, endpoint_rows: Rows, keys: Sequence[str], all_rows: Rows, coverage: Coverage | None, month: str = ""
) -> Showback:
    """Summarize who pays for the rows, and find the anomalies of their projects.

    Args:
        rows: rows of jobs to report.
        endpoint_rows: rows of endpoints to report.
        keys: grouping keys.
        all_rows: all rows of both ledgers.
        coverage: what the stated commitments cover, with their unused part; None if none is stated.
        month: month, YYYY-MM, whose anomalies and utilization of commitments are reported; empty: the anomalies of the
            last four weeks, and the utilization in all months.

    Raises:
        DataError: a row of a ledger is damaged. A retry cannot help.
    """
    from pipelines.costs.row_checks import check_rows
    from pipelines.costs.showback.allocation import add_job_columns
    from pipelines.costs.showback.reserved import summarize_use
    from pipelines.costs.showback.summary import find_anomalies, summarize

    check_rows(all_rows)
    reported_rows = [*rows, *add_job_columns(endpoint_rows)]
    projects = {row["project"] for row in reported_rows}
    project_rows = (row for row in all_rows if row["project"] in projects)
    anomalies = find_anomalies(project_rows, dt.datetime.now(dt.UTC), month)
    commitment_use = summarize_use(coverage, reported_rows, month) if coverage else None
    return replace(summarize(reported_rows, keys, commitment_use), anomalies=anomalies)


def print_showback(showback: Showback) -> None:
    """Print the table of the groups, the unused part of the commitments, and a line for each anomaly."""
    from pipelines.costs.showback.summary import build_showback_table

    make_console().print(build_showback_table(showback))
    for line in showback.commitment_use.list_sentences() if showback.commitment_use else ():
        write_line(f"{line}.")
    for line in showback.list_anomaly_sentences():
        write_line(f"Anomaly: {line}.")


def write_files(showback: Showback, csv_file: str, html_file: str, all_rows: Rows, *, month: str, project: str) -> None:
    """Write the CSV file and the HTML page, each if its name is not empty.

    Args:
        showback: the groups of rows, with who pays for them.
        csv_file: name of the CSV file.
        html_file: name of the page.
        all_rows: all rows of both ledgers, for the chart of the days.
        month: month of the page; empty: all months, and the anomalies of the last four weeks.
        project: project of the page; empty: all projects.

    Raises:
        SpecError: a file cannot be written. A retry cannot help.
    """
    if csv_file:
        from pipelines.costs.showback.summary import write_csv

        write_csv(Path(csv_file), showback)
        log.info("table written to %s", csv_file)
    if html_file:
        from pipelines.costs.daily.days import sum_days_by_project
        from pipelines.costs.showback import page
        from pipelines.costs.showback.summary import find_last_whole_day

        title = ", ".join(["Costs", *filter(None, (project, month))])
        last_day = find_last_whole_day(dt.datetime.now(dt.UTC), month)
        daily_costs = sum_days_by_project(select_rows(all_rows, month="", project=project), last_day)
        page.write_showback_page(Path(html_file), title, showback, daily_costs, month or "the last four weeks")
        log.info("page written to %s", html_file)
