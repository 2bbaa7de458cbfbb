"""`python -m pipelines costs`: reports of the ledger, and forecasts of backfills."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines import params
from pipelines.errors import SpecError
from pipelines.settings import settings
from pipelines.system.log import log

app = typer.Typer(no_args_is_help=True, help="Tells what trainings cost, and what a backfill would cost.")
WIDTH = 150
"""Of a table where there is no terminal to be narrow."""

ProjectOption = Annotated[str, typer.Option(help="Only of this project.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]


@app.command("report")
def report(
    month: Annotated[str, typer.Option(metavar="YYYY-MM", help="Only jobs created in this month.")] = "",
    project: ProjectOption = "",
    by: Annotated[str, typer.Option(help="Groups: of month, project, model, instance_type, dag_id.")] = (
        "month,model,instance_type"
    ),
    png: Annotated[str, typer.Option(metavar="FILE", help="Also a chart of the months.")] = "",
    as_json: JsonOption = False,
) -> None:
    """What the trainings in the ledger cost: jobs, hours, money, what spot saved, what interruptions undid."""
    from pipelines.costs import report as cost_report
    from pipelines.costs.ledger import Ledger

    keys = cost_report.keys_of(by)
    if month and not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
        raise SpecError(f"--month {month!r}: YYYY-MM is wanted.")
    rows = Ledger.open().rows(month, project)
    groups, total = cost_report.grouped(rows, keys), cost_report.added(rows)
    if as_json:
        sys.stdout.write(json.dumps({"groups": groups, "total": total}, indent=2) + "\n")
    elif not rows:
        asked = " ".join(filter(None, [month, project]))
        sys.stdout.write(f"No training was charged yet{f' ({asked})' if asked else ''}: the ledger has no such row.\n")
    else:
        _console().print(cost_report.table(groups, keys, total, cost_report.price_note(rows)))
    if png and rows:
        cost_report.draw(Path(png), rows)
        log.info("%s shows it", png)


@app.command("forecast")
def forecast(
    dag: Annotated[str, typer.Option(help="DAG to backfill.")],
    first: Annotated[str, typer.Option("--from", metavar="YYYY-MM-DD", help="First day.")] = "",
    last: Annotated[str, typer.Option("--to", metavar="YYYY-MM-DD", help="Last day, included.")] = "",
    runs: Annotated[int | None, typer.Option(min=0, help="Number of runs; Airflow is not asked then.")] = None,
    project: Annotated[str, typer.Option(help="Project that pays; params.yaml's where it is not given.")] = "",
    instance_type: Annotated[str, typer.Option(help="Of a run, where the ledger knows none.")] = "",
    instance_count: Annotated[int | None, typer.Option(min=1, help="Instances of such a run (default: 1).")] = None,
    max_run_s: Annotated[int | None, typer.Option(min=1, help="Longest training time of such a run, seconds.")] = None,
    region: Annotated[str, typer.Option(help="AWS region of the price; AWS_REGION where it is not given.")] = "",
    as_json: JsonOption = False,
) -> None:
    """What a backfill would cost: the runs that Airflow would start, at what past runs cost, against the budget."""
    from pipelines.costs import forecast as forecasting
    from pipelines.costs.ledger import Ledger, this_month

    ours = params.load_section(settings().project, "budget")
    if runs is None:
        runs = _asked_of_airflow(dag, first, last)
    ledger, month, paying = Ledger.open(), this_month(), project or str(ours.get("project", ""))
    cost = forecasting.from_ledger(ledger.rows(dag_id=dag)) or _worst_case(
        ours, dag, instance_type, instance_count, max_run_s, region
    )
    told = forecasting.Forecast(dag, runs, cost, paying, month, ledger.spent_usd(month, paying), ours.get("month_usd"))
    text = json.dumps(told.record(), indent=2) if as_json else "\n".join(told.lines())
    sys.stdout.write(f"{text}\n")


@app.command("sweep")
def sweep(
    days: Annotated[int, typer.Option(min=1, help="Jobs created in the last so many days.")] = 35,
    as_json: JsonOption = False,
) -> None:
    """Charges the ended jobs that no task charged: of tasks that were marked, or did not run again."""
    from pipelines.costs.charges import usd
    from pipelines.costs.sweep import sweep as swept

    charged = swept(dt.datetime.now(dt.UTC) - dt.timedelta(days=days))
    if as_json:
        sys.stdout.write(json.dumps([one.model_dump(mode="json") for one in charged], indent=2) + "\n")
        return
    for one in charged:
        sys.stdout.write(f"charged {one.name} ({one.status}): {usd(one.cost_usd)}\n")
    total = usd(sum(one.cost_usd for one in charged))
    sys.stdout.write(f"{len(charged)} job(s) charged, {total}.\n" if charged else "Every ended job was charged.\n")


def _asked_of_airflow(dag: str, first: str, last: str) -> int:
    from pipelines.costs.forecast import runs_of

    if not first or not last:
        raise SpecError("the days of the backfill are missing.", "Give --from and --to, or --runs N.")
    begin, end = _day("--from", first), _day("--to", last)
    if begin > end:
        raise SpecError(f"--from {first} is after --to {last}.")
    with redirect_stdout(sys.stderr), _console(stderr=True).status(f"asking Airflow for the runs of {dag} ..."):
        return runs_of(dag, begin, end)


def _worst_case(
    ours: dict[str, Any], dag: str, instance_type: str, count: int | None, max_run_s: int | None, region: str
) -> Any:
    """The cost of a run by the options, and what they leave open by section `budget` of params.yaml."""
    from pipelines.costs.forecast import from_worst_case

    types = [instance_type] if instance_type else ours.get("instance_types", [])
    longest = max_run_s or ours.get("max_run_s")
    where = region or ours.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    wanted = {"--instance-type": types, "--max-run-s": longest, "--region": where}
    missing = [option for option, value in wanted.items() if not value]
    if missing or not longest:
        raise SpecError(f"no past run of {dag} is in the ledger.", f"For its worst case give {', '.join(missing)}.")
    return from_worst_case(types, count or int(ours.get("instance_count", 1)), longest, str(where))


def _day(option: str, text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{option} {text!r}: a day is wanted, YYYY-MM-DD.") from None


def _console(*, stderr: bool = False) -> Any:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else WIDTH)
