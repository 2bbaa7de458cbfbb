"""`python -m pipelines costs`: report and forecast costs, advise what could cost less, and charge uncharged jobs."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines import params
from pipelines.cli.cost_reports import showback, tables
from pipelines.cli.cost_reports.commitment import find_best_commitment
from pipelines.cli.cost_reports.key_figures import show_key_figures
from pipelines.cli.options import FirstOption, JsonOption, LastOption, parse_range
from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.errors import SpecError
from pipelines.settings import settings

if TYPE_CHECKING:
    from pipelines.costs.forecast import RunCost

app = typer.Typer(
    no_args_is_help=True,
    help="Report what jobs and endpoints cost, and forecast what a backfill or a deployment would cost.",
)

app.command("kpi")(show_key_figures)
app.command("commitment")(find_best_commitment)

BY_HELP = (
    "Grouping keys, separated by commas: month, team, project, model, dataset, environment, user, instance_type, "
    "dag_id, endpoint, variant."
)
REGION_HELP = "AWS region of the price (default: the one in section budget, or else AWS_REGION)."
ProjectOption = Annotated[str, typer.Option(help="Only jobs and endpoints of this project.")]
Rows = Sequence[Mapping[str, Any]]


@app.command("report")
def report_costs(
    month: Annotated[
        str, typer.Option(metavar="YYYY-MM", help="Only jobs created, and hours of endpoints, in this month.")
    ] = "",
    project: ProjectOption = "",
    by: Annotated[str, typer.Option(help=BY_HELP)] = "month,model,instance_type",
    png: Annotated[str, typer.Option(metavar="FILE", help="Also draw a chart of the months.")] = "",
    csv: Annotated[str, typer.Option(metavar="FILE", help="Also write the groups to a CSV file.")] = "",
    html: Annotated[str, typer.Option(metavar="FILE", help="Also write a page with charts of the groups.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Report what jobs and endpoints cost: hours, USD, savings by spot and by scaling to zero, time lost.

    A second table shows the utilization of the jobs' instances: CPU, memory, disk and GPU, and the time in the queue.
    Another one shows the utilization of the endpoints' instances. The last one shows who pays, the shares of spot, on
    demand and endpoints, what commitments covered, what idled, and the days that are anomalies.
    """
    from pipelines.costs.periods import parse_month
    from pipelines.costs.report import parse_keys

    keys = parse_keys(by)
    parse_month(month, dt.datetime.now(dt.UTC))
    all_job_rows, all_endpoint_rows, coverage = showback.read_reserved_rows()
    ledgers = (all_job_rows, all_endpoint_rows)
    rows, endpoint_rows = (showback.select_rows(ledger_rows, month, project) for ledger_rows in ledgers)
    all_rows = [*all_job_rows, *all_endpoint_rows]
    costs_by_payer = showback.build_showback(rows, endpoint_rows, keys, all_rows, coverage, month)
    if as_json:
        write_json(tables.build_report(rows, endpoint_rows, keys) | costs_by_payer.to_record())
    elif not rows and not endpoint_rows:
        filters = " ".join(filter(None, [month, project]))
        write_line(f"Nothing was charged yet{f' ({filters})' if filters else ''}: no job, and no endpoint.")
    else:
        tables.print_tables(rows, endpoint_rows, keys)
        showback.print_showback(costs_by_payer)
    showback.write_files(costs_by_payer, csv, html, all_rows, month=month, project=project)
    if png:
        tables.draw_chart(png, rows, endpoint_rows)


@app.command("forecast")
def forecast_backfill(
    dag: Annotated[str, typer.Option(help="DAG to backfill.")],
    first: FirstOption = "",
    last: LastOption = "",
    runs: Annotated[int | None, typer.Option(min=0, help="Number of runs, instead of --from and --to.")] = None,
    model: Annotated[str, typer.Option(help="Model whose budget is used (default: the budget of params.yaml).")] = "",
    project: Annotated[str, typer.Option(help="Project that pays (default: the one in params.yaml).")] = "",
    instance_type: Annotated[str, typer.Option(help="Instance type of the worst case.")] = "",
    instance_count: Annotated[int | None, typer.Option(min=1, help="Number of instances of the worst case.")] = None,
    max_run_s: Annotated[int | None, typer.Option(min=1, help="Longest training time, seconds.")] = None,
    region: Annotated[str, typer.Option(help=REGION_HELP)] = "",
    as_json: JsonOption = False,
) -> None:
    """Forecast the cost of a backfill: the runs that Airflow would start, times the cost of past runs of the DAG.

    Without a past run in the ledger, or with --instance-type, --instance-count, --max-run-s or --region, the forecast
    uses the worst case of a run. Section `budget` of params.yaml has the defaults of these four options.
    """
    from pipelines.costs import forecast as forecasting
    from pipelines.costs.ledger import Ledger, get_current_month
    from pipelines.costs.row_checks import check_rows
    from pipelines.costs.spending import read_spending
    from pipelines.serving.metering.running import list_running_fleets

    budget = params.load_section(settings().project, "budget", model)
    if not dag:
        raise SpecError("--dag is empty.", "Give the DAG to backfill.")
    if runs is not None and (first or last):
        raise SpecError("--runs cannot be combined with --from and --to.", "Give the number of runs, or the days.")
    runs, past_rows = _count_runs(dag, first, last) if runs is None else runs, Ledger.open().read_rows(dag_id=dag)
    check_rows(past_rows)
    month, paying_project = get_current_month(), project or str(budget.get("project", ""))
    worst_case_options = (instance_type, instance_count, max_run_s, region)
    past_cost = None if any(worst_case_options) else forecasting.estimate_from_ledger(past_rows)
    cost = past_cost or _estimate_worst_case(budget, dag, *worst_case_options)
    if not past_cost and not any(worst_case_options):
        cost = replace(cost, basis=f"no past run of {dag} in the ledger: {cost.basis}")
    spending = read_spending(paying_project, month, list_running_fleets())
    result = forecasting.Forecast(dag, runs, cost, paying_project, month, spending, budget.get("month_usd"))
    _write_forecast(result.to_record() if as_json else result.format_lines())


@app.command("forecast-deployment")
def forecast_deployment(
    model: Annotated[str, typer.Argument(help="Model to deploy, with section `serving` of its parameters.")],
    endpoint: Annotated[str, typer.Option(help="Name of the endpoint (default: that of the model).")] = "",
    project: Annotated[str, typer.Option(help="Project that pays (default: the one in params.yaml).")] = "",
    instance_type: Annotated[str, typer.Option(help="Instance type (default: the one in section serving).")] = "",
    instance_count: Annotated[
        int | None, typer.Option(min=1, help="Number of instances (default: the one in section serving).")
    ] = None,
    region: Annotated[str, typer.Option(help=REGION_HELP)] = "",
    as_json: JsonOption = False,
) -> None:
    """Forecast what an endpoint costs, before DeployOperator creates it: until the end of the month, and a full month.

    Nothing is deployed. DeployOperator makes the same forecast, and refuses what the budget does not allow.
    """
    from pipelines.serving.endpoint_resources import build_endpoint_name, compute_waits_s
    from pipelines.serving.release_policy import ReleasePolicy
    from pipelines.steps import forecast_deployment as step

    sections = params.load(settings().project, model)
    instance_options = {"instance_type": instance_type, "instance_count": instance_count}
    given_options = {name: value for name, value in instance_options.items() if value}
    # Options about instances replace a serverless endpoint of the section, so that the costs of both can be compared.
    ignored_fields = {"serverless_memory_mb", *ReleasePolicy.prerequisites} if given_options else set[str]()
    names = ReleasePolicy.model_fields.keys() - ignored_fields
    fields = {name: value for name, value in sections.get("serving", {}).items() if name in names}
    policy = ReleasePolicy.parse(fields | given_options, "section serving")
    price_region = _find_region(region, sections.get("budget", {}))
    if not price_region:
        raise SpecError("the region of the price is not known.", "Give --region.")
    spec = {
        "region": price_region,
        "endpoint": endpoint or build_endpoint_name(model),
        **policy.describe_machine(),
        "release_s": compute_waits_s(policy.build_release()),
        "project": project,
        "model": model,
    }
    result = step.run(step.ForecastDeploymentSpec.parse(spec, "the deployment"))
    _write_forecast(result.model_dump(mode="json") if as_json else result.format_lines())


@app.command("advice")
def list_advice(as_json: JsonOption = False) -> None:
    """Say what could cost less: jobs on demand, failed jobs, instances of the wrong size, endpoints without requests.

    The size of an endpoint is judged after a week. Until then, a sentence says that it is not judged. Leeway's page
    shows the same advice.
    """
    from pipelines.costs.endpoints.ledger import EndpointLedger
    from pipelines.costs.ledger import Ledger
    from pipelines.costs.row_checks import check_rows
    from pipelines.serving.metering.running import list_running_fleets
    from pipelines.status import advice

    rows, endpoint_rows = Ledger.open().read_rows(), EndpointLedger.open().read_rows()
    check_rows((*rows, *endpoint_rows))
    sentences = advice.list_advice(rows, endpoint_rows, list_running_fleets(), dt.datetime.now(dt.UTC))
    if as_json:
        write_json(sentences)
        return
    for sentence in sentences or ["Nothing was found."]:
        write_line(sentence)


@app.command("sweep")
def charge_ended_jobs(
    days: Annotated[
        int, typer.Option(min=1, max=3_660, help="Age of the oldest jobs to charge, in days since their creation.")
    ] = 35,
    as_json: JsonOption = False,
) -> None:
    """Charge the ended jobs of Leeway's operators that no task charged: a task was marked by hand, or did not rerun."""
    from pipelines.costs.charges import format_usd
    from pipelines.costs.uncharged_jobs import charge_uncharged_jobs

    charges = charge_uncharged_jobs(dt.datetime.now(dt.UTC) - dt.timedelta(days=days))
    if as_json:
        write_json([charge.model_dump(mode="json") for charge in charges])
        return
    for charge in charges:
        write_line(f"charged {charge.name} ({charge.status}): {format_usd(charge.cost_usd)}")
    total = format_usd(sum(charge.cost_usd for charge in charges))
    write_line(f"{len(charges)} job(s) charged, {total}." if charges else "Every ended job is charged already.")


def _count_runs(dag: str, first: str, last: str) -> int:
    """Let Airflow count the runs that a backfill of the days would start."""
    from pipelines.costs.forecast import count_runs

    if not first or not last:
        raise SpecError("the days of the backfill are missing.", "Give --from and --to, or --runs N.")
    begin, end = parse_range(first, last)
    status = make_console(stderr=True).status(f"counting the runs of {dag} in Airflow ...")
    with redirect_stdout(sys.stderr), status:
        return count_runs(dag, begin, end)


def _estimate_worst_case(
    budget: dict[str, Any], dag: str, instance_type: str, instance_count: int | None, max_run_s: int | None, region: str
) -> RunCost:
    """Estimate the cost of a run from the options. A missing option is taken from section `budget` of params.yaml.

    A region that is in neither is taken from AWS_REGION or AWS_DEFAULT_REGION.

    Raises:
        SpecError: the instance type, the longest time or the region is not known. A retry cannot help.
    """
    from pipelines.costs.forecast import estimate_worst_case

    instance_types = [instance_type] if instance_type else budget.get("instance_types", [])
    max_duration_s = max_run_s or budget.get("max_run_s")
    price_region = _find_region(region, budget)
    prerequisites = {"--instance-type": instance_types, "--max-run-s": max_duration_s, "--region": price_region}
    missing_options = [option for option, value in prerequisites.items() if not value]
    if missing_options or not max_duration_s:
        raise SpecError(
            f"the worst case of a run of {dag} is not known.", f"To forecast it, give {', '.join(missing_options)}."
        )
    return estimate_worst_case(
        instance_types, instance_count or int(budget.get("instance_count", 1)), max_duration_s, price_region
    )


def _write_forecast(forecast: dict[str, Any] | list[str]) -> None:
    """Write a forecast as JSON, or as lines."""
    if isinstance(forecast, dict):
        write_json(forecast)
        return
    for line in forecast:
        write_line(line)


def _find_region(region: str, budget: Mapping[str, Any]) -> str:
    """Return `region`, else that of section `budget`, else that of the environment; empty if there is none."""
    environment = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return str(region or budget.get("region") or environment or "")
