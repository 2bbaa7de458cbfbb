"""`python -m pipelines prices`: renew the prices of instance types, and show those with which Leeway computes costs."""

from __future__ import annotations

import datetime as dt
import os
from typing import Annotated, Any

import typer

from pipelines.cli.options import JsonOption, parse_day, parse_output_path, refuse_empty_options
from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.errors import DataError, SpecError

app = typer.Typer(no_args_is_help=True, help="Renew the prices of instance types; show those that costs use.")

AsOfOption = Annotated[
    str, typer.Option("--as-of", metavar="YYYY-MM-DD", help="Use tables of this day or earlier (default: the newest).")
]
RegionsOption = Annotated[
    list[str] | None, typer.Option("--region", help="AWS region; may be repeated (default: AWS_REGION).")
]


@app.command("refresh")
def refresh(
    context: typer.Context,
    regions: RegionsOption = None,
    days: Annotated[int, typer.Option(min=1, max=90, help="Days of the spot price history.")] = 30,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="File to write (default: prices/TODAY.json of the project).")
    ] = "",
) -> None:
    """Request today's prices from AWS, and write them as a dated table: on demand, spot, savings plans.

    If there is a table of today already, its prices of other regions are kept. The command needs these permissions:
    pricing:GetProducts, ec2:DescribeSpotPriceHistory and savingsplans:DescribeSavingsPlansOfferingRates.
    """
    from pipelines.costs.price_sources.price_refresh import request_prices, write_prices

    refuse_empty_options(context)
    path = parse_output_path("--out", out) if out else None
    table = request_prices(list_regions(regions), days, dt.datetime.now(dt.UTC).date())
    path = write_prices(table, path)
    for group in table.prices:
        plan_count = sum(len(prices) for prices in group.savings_plan_usd_per_hour.values())
        write_line(
            f"{group.regions[0]}: {len(group.usd_per_hour)} price(s) on demand, {len(group.spot_saving)} saving(s) by "
            f"spot, {plan_count} price(s) with savings plans."
        )
    write_line(f"Written to {path}.")


@app.command("show")
def show(
    context: typer.Context,
    regions: RegionsOption = None,
    as_of: AsOfOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show the prices with which costs are computed, and their dates.

    If LEEWAY_PRICES is api, prices on demand come from AWS. Then --as-of is refused, because AWS has only today's
    prices.
    """
    from rich.table import Table

    refuse_empty_options(context)
    day = parse_day("--as-of", as_of) if as_of else None
    rows = [row for region in list_regions(regions) for row in _list_rows(region, day)]
    if as_json:
        write_json(rows, is_strict=True)
        return
    table = Table(title="Prices of training, USD per hour")
    for title in ("region", "instance type", "on demand", "spot saves", "plan 1 y", "plan 3 y", "as of"):
        table.add_column(title)
    for row in rows:
        saving = "unknown" if row["spot_saving"] is None else f"{row['spot_saving']:.0%}"
        terms = ["unknown" if row[name] is None else str(row[name]) for name in ("plan_1y_usd_h", "plan_3y_usd_h")]
        table.add_row(
            str(row["region"]), str(row["instance_type"]), str(row["usd_h"]), saving, *terms, str(row["date"])
        )
    make_console().print(table)


def _list_rows(region: str, day: dt.date | None) -> list[dict[str, Any]]:
    """Return a row for each instance type that has a price on demand in the region.

    Raises:
        DataError: no instance type has a price, or a table of prices is not valid. A retry cannot help.
        InvalidError: LEEWAY_PRICES is api, and `day` is given or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    from pipelines.costs.prices import find_region_prices, suggest_prices

    prices = find_region_prices(region, day)
    if not prices.on_demand:
        raise DataError(
            f"no price is known in {region}{f' on {day}' if day else ''}.",
            suggest_prices([region], day),
        )
    plan_prices = {f"plan_{term}_usd_h": prices_by_type for term, prices_by_type in prices.plans.items()}
    return [
        {
            "region": region,
            "instance_type": name,
            "usd_h": price.usd_h,
            "spot_saving": prices.spot_savings.get(name),
            **{
                column: prices_by_type[name].usd_h if name in prices_by_type else None
                for column, prices_by_type in plan_prices.items()
            },
            "date": price.date,
            "source": price.source,
        }
        for name, price in sorted(prices.on_demand.items())
    ]


def list_regions(regions: list[str] | None, option: str = "--region") -> list[str]:
    """Return the regions of the option, each once; without the option, the region of the environment.

    Args:
        regions: values of the option; None if it is not given.
        option: name of the option, for the error message.

    Raises:
        SpecError: a region of the option is empty; or there is neither the option nor a region in the environment. A
            retry cannot help.
    """
    names = regions or [os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""]
    if "" in names:
        raise SpecError("the region of the prices is not known.", f"Give {option}, or set AWS_REGION.")
    return list(dict.fromkeys(names))
