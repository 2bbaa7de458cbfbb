"""`python -m pipelines lake`: check the lake, and restore lost files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.options import JsonOption
from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.escaping import escape

if TYPE_CHECKING:
    from pipelines.lake.check import Finding

app = typer.Typer(no_args_is_help=True, help="Check the lake for lost and damaged files, and restore them.")


@app.callback()
def _keep_subcommand() -> None:
    """Keep `check` a sub-command: typer would drop the name of a single command."""


@app.command("check")
def check(
    repair: Annotated[bool, typer.Option("--repair", help="Restore lost files.")] = False,
    backup: Annotated[
        str, typer.Option(metavar="FILE", help="File of `make backup` to restore from, besides the sources.")
    ] = "",
    content: Annotated[
        bool, typer.Option("--content/--no-content", help="Read the content of all files, or only their sizes.")
    ] = True,
    older: Annotated[
        bool, typer.Option("--older/--no-older", help="Also check files that only older snapshots need, or not.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Compare catalog, metadata, manifests, files and row counts with each other.

    Exit with code 2 if something is lost or damaged, and not restored. Without --repair, nothing is changed.
    The step `check_lake` does the same, for Airflow.
    """
    from pipelines.steps import check_lake

    values = {"repair": repair, "backup": backup or None, "content": content, "older": older}
    spec = check_lake.CheckLakeSpec.parse(values, "lake check")
    report, restored_findings = check_lake.check_and_repair(spec)
    if as_json:
        write_json(check_lake.to_json_values(report, restored_findings))
    else:
        _write_table([*restored_findings, *report.findings])
        write_line(
            f"{report.tables} tables, {report.snapshots} snapshots, {report.files} files, {report.rows} rows: "
            f"{len(report.findings)} lost or damaged, {len(restored_findings)} restored"
        )
    if report.findings:
        raise check_lake.make_error(report.findings, spec)


def _write_table(findings: Sequence[Finding]) -> None:
    """Write a row for each finding; write nothing if there are no findings."""
    from rich.table import Table

    if not findings:
        return
    table = Table("table", "partition", "what", "problem", "rows", "file", "result", header_style="bold")
    for row in map(_format_row, findings):
        table.add_row(*map(escape, row))
    make_console().print(table)


def _format_row(finding: Finding) -> Iterable[str]:
    problem = finding.problem if finding.is_current else f"{finding.problem} (older snapshots)"
    name = finding.location.rpartition("/")[2]
    file = name if len(name) <= 24 else f"{name[:8]}...{name[-12:]}"
    result = f"restored from {finding.restored_from}" if finding.restored_from else "not restored"
    return finding.table, finding.partition, finding.kind, problem, str(finding.rows or ""), file, result
