"""`python -m pipelines calculate machines`: compare the cost of machines of one's own with that of the cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pipelines.cli.calculate.output import Report, format_number
from pipelines.planning import own_machines as own


@dataclass(frozen=True, kw_only=True)
class MachinesRequest:
    """The options of the command."""

    price_usd: Annotated[float, typer.Option(help="Price of a machine, with network equipment and installation, USD.")]
    power_kw: Annotated[float, typer.Option(help="Power of a machine in use, kW.")]
    cloud_usd_per_h: Annotated[float, typer.Option(help="Price of cloud instances that do the same work, USD an hour.")]
    use: Annotated[float, typer.Option(help="Utilization: share of the hours in which a machine computes.")] = 0.5
    lifetime_months: Annotated[float, typer.Option(help="Months until a machine is replaced.")] = 48
    idle_kw: Annotated[float, typer.Option(help="Power of a machine that is not in use, kW.")] = 0
    pue: Annotated[float, typer.Option(help="Power usage effectiveness: power of the building / its machines.")] = 1.5
    usd_per_kwh: Annotated[float, typer.Option(help="Price of electricity, USD per kWh.")] = 0.15
    staff_usd_month: Annotated[float, typer.Option(help="Share of salaries, USD a month.")] = 0
    hosting_usd_month: Annotated[float, typer.Option(help="Rent of space, internet, maintenance: USD a month.")] = 0
    resale_usd: Annotated[float, typer.Option(help="Resale price of a machine after its lifetime, USD.")] = 0


def calculate_machines(request: MachinesRequest) -> Report:
    """Calculate when machines of one's own cost less than the cloud: payback, and break-even utilization.

    Example: python -m pipelines calculate machines --price-usd 300000 --power-kw 10.2 --cloud-usd-per-h 98.32
    --use 0.6 --staff-usd-month 4000
    """
    machine = own.OwnMachine(
        price_usd=request.price_usd,
        lifetime_months=request.lifetime_months,
        power_kw=request.power_kw,
        idle_kw=request.idle_kw,
        pue=request.pue,
        usd_per_kwh=request.usd_per_kwh,
        staff_usd_month=request.staff_usd_month,
        hosting_usd_month=request.hosting_usd_month,
        resale_usd=request.resale_usd,
    )
    payback = own.compute_payback_months(machine, request.cloud_usd_per_h, request.use)
    break_even_use = own.compute_break_even_use(machine, request.cloud_usd_per_h)
    report = Report("Own machines")
    report.add("running costs, a month", own.compute_running_usd_month(machine, request.use), "USD", "running_month")
    report.add("own machine, a month", own.compute_own_usd_month(machine, request.use), "USD", "own_month")
    cloud_usd = own.compute_cloud_usd_month(request.cloud_usd_per_h, request.use)
    report.add("cloud, a month", cloud_usd, "USD", "cloud_month")
    report.add("payback", payback, "months", "payback")
    report.add("utilization at break-even", break_even_use, "share of the hours", "machine_break_even")
    report.notes.append(_describe_payback(payback, request.lifetime_months))
    if break_even_use is None:
        report.notes.append("Over its lifetime, a machine never costs less than the cloud, whatever its utilization.")
    report.notes.append("Interest and falling prices are not counted.")
    return report


def _describe_payback(payback: float | None, lifetime: float) -> str:
    if payback is None:
        return "A machine never pays off: its running costs are not less than the cost of the cloud."
    if payback > lifetime:
        return f"A machine does not pay off within its lifetime of {format_number(lifetime)} months."
    return f"A machine pays off after {format_number(payback)} of its {format_number(lifetime)} months."
