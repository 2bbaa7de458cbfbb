"""Find the price, with its date, of a SageMaker instance or of a serverless endpoint.

The prices come from dated tables (`price_tables`). If the environment variable LEEWAY_PRICES is `api`, on-demand prices
come from AWS instead (pricing:GetProducts).
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pipelines.costs.charges import HOUR_S, Price
from pipelines.costs.price_sources.price_list import (
    SOURCE,
    request_instance_price,
    request_serverless_price,
    request_type_prices,
)
from pipelines.costs.price_sources.price_tables import (
    API_VALUE,
    DEFAULT_TABLE,
    PRICES_VARIABLE,
    PlanTerm,
    RegionGroup,
    format_example,
    is_api_used,
    list_groups,
    read_table,
    read_tables,
    require_no_api,
)
from pipelines.costs.price_sources.regions import suggest_regions
from pipelines.errors import DataError
from pipelines.instances.catalogue import find_instance, refuse_retired

Component = Literal["Training", "Hosting"]
"""Part of SageMaker that uses an instance, as AWS's price list names it: a job, or an endpoint."""


def find_price(
    instance_type: str, region: str, component: Component = "Training", as_of: dt.date | None = None
) -> Price:
    """Find the on-demand price of an instance type in a region, USD per hour.

    A table has one price for both components, unless `hosting_usd_per_hour` gives another one for endpoints.

    Args:
        instance_type: instance type, such as ml.m5.large.
        region: AWS region.
        component: Training for a job, Hosting for an endpoint.
        as_of: use only tables of this day or earlier; None: all tables.

    Raises:
        InvalidError: no table has the price, a table is not valid, or AWS denies access or has only today's prices. A
            retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    require_no_api(as_of)
    if is_api_used():
        return request_instance_price(instance_type, region, component, _format_hint())
    for group, origin in list_groups(region, as_of):
        prices = _get_amounts(group, component)
        if instance_type in prices:
            return Price(usd_h=prices[instance_type], **origin)
    regions = {region for group in read_table(DEFAULT_TABLE).prices for region in group.regions}
    subject = f"{instance_type} in {region}" if region in regions else f"region {region}"
    day = f" on {as_of}" if as_of else ""
    raise DataError(
        f"no price is known for {subject}{day}.", " ".join(filter(None, (suggest_regions([region]), _format_hint())))
    )


def find_launch_price(instance_type: str, region: str, component: Component = "Training") -> Price:
    """Find the price of an instance type for a job or endpoint that is about to start. For past jobs: `find_price`.

    Raises:
        SpecError: the type is retired, and the message names its successor; or SageMaker has no such type. A retry
            cannot help.
        InvalidError, ServiceError: as `find_price`.
    """
    refuse_retired(instance_type)
    try:
        return find_price(instance_type, region, component)
    except DataError:
        find_instance(instance_type)  # a wrong name needs another hint than a missing price
        raise


@dataclass(frozen=True)
class RegionPrices:
    """What instances cost in a region, by type. A missing type has no known price.

    Attributes:
        on_demand: price of training on demand.
        spot_savings: share, 0 to 1, by which spot is typically cheaper than on demand.
        plans: each term of a savings plan, with the prices of training under such a plan.
    """

    on_demand: Mapping[str, Price]
    spot_savings: Mapping[str, float]
    plans: Mapping[PlanTerm, Mapping[str, Price]]


def find_region_prices(region: str, as_of: dt.date | None = None) -> RegionPrices:
    """Find the prices of a region: on demand from AWS if LEEWAY_PRICES is `api`; all else comes from the tables.

    Args:
        region: AWS region.
        as_of: use only tables of this day or earlier; None: all tables.

    Raises:
        InvalidError: a table is not valid, or AWS denies access or has only today's prices. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    require_no_api(as_of)
    prices = read_region_prices(region, as_of)
    if not is_api_used():
        return prices
    today = dt.datetime.now(dt.UTC).date()
    amounts = request_type_prices(region, "Training")
    return replace(
        prices, on_demand={name: Price(usd_h=usd_h, date=today, source=SOURCE) for name, usd_h in amounts.items()}
    )


def read_region_prices(region: str, as_of: dt.date | None = None) -> RegionPrices:
    """Read the prices of a region from the tables, without a request to AWS.

    If several tables have a price of a type, the first one in the order of `read_tables` is used.

    Args:
        region: AWS region.
        as_of: use only tables of this day or earlier; None: all tables.

    Raises:
        DataError: a table is not valid. A retry cannot help.
    """
    on_demand: dict[str, Price] = {}
    savings: dict[str, float] = {}
    plans: dict[PlanTerm, dict[str, Price]] = {"1y": {}, "3y": {}}
    for group, origin in list_groups(region, as_of):
        on_demand = _add_date_and_source(group.usd_per_hour, origin) | on_demand
        savings = group.spot_saving | savings
        for term, amounts in group.savings_plan_usd_per_hour.items():
            plans[term] = _add_date_and_source(amounts, origin) | plans[term]
    return RegionPrices(on_demand, savings, plans)


def list_prices(region: str, component: Component = "Training") -> dict[str, float]:
    """Map each instance type with a price in the tables to this price, USD per hour, without a request to AWS.

    If several tables have a price of a type, the first one in the order of `read_tables` is used.

    Raises:
        DataError: a table is not valid. A retry cannot help.
    """
    prices: dict[str, float] = {}
    for group, _ in list_groups(region):
        prices = _get_amounts(group, component) | prices
    return prices


def suggest_prices(regions: Sequence[str], as_of: dt.date | None = None) -> str:
    """Return a hint for a missing price: correct the region, give a later day, or refresh the prices."""
    if unknown_region := suggest_regions(regions):
        return unknown_region
    days = [origin["date"] for region in regions for _, origin in list_groups(region, None)] if as_of else []
    if days:
        return f"The oldest prices are of {min(days)}: give a later day."
    return f"Run python -m pipelines prices refresh --region {regions[0]}"


def find_serverless_price(region: str) -> Price:
    """Find the price of a serverless endpoint in a region, USD per hour of work with 1 GB of memory.

    Raises:
        InvalidError: no table has the price, the table is not valid, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    if is_api_used():
        return request_serverless_price(region, _format_serverless_hint())
    for path, table in read_tables():
        prices = table.serverless
        if prices and region in prices.usd_per_gb_second:
            source = prices.source or table.source or path.name
            usd_h = round(prices.usd_per_gb_second[region] * HOUR_S, 10)
            return Price(usd_h=usd_h, date=prices.as_of or table.as_of, source=source)
    raise DataError(f"no price is known for serverless endpoints in {region}.", _format_serverless_hint())


def _get_amounts(group: RegionGroup, component: Component) -> dict[str, float]:
    """Return the on-demand prices of a group for jobs or for endpoints, USD per hour."""
    return group.usd_per_hour | (group.hosting_usd_per_hour if component == "Hosting" else {})


def _add_date_and_source(amounts: Mapping[str, float], origin: Mapping[str, Any]) -> dict[str, Price]:
    """Return the prices with their date and source."""
    return {name: Price(usd_h=usd_h, **origin) for name, usd_h in amounts.items()}


def _format_hint() -> str:
    return f"Set {PRICES_VARIABLE}={API_VALUE} to use AWS's price list, or to a file: {format_example()}"


def _format_serverless_hint() -> str:
    example = {"as_of": "YYYY-MM-DD", "serverless": {"usd_per_gb_second": {"REGION": 2e-5}}}
    return f"Set {PRICES_VARIABLE}={API_VALUE} to use AWS's price list, or to a file: {json.dumps(example)}"
