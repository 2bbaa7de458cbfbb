"""Find the price, with its date, of a SageMaker instance or of a serverless endpoint.

The prices come from dated tables (`price_tables`). If the environment variable LEEWAY_PRICES is `api`, on-demand prices
come from AWS instead (pricing:GetProducts).
"""

from __future__ import annotations

import datetime as dt
import json
import os
from typing import Any, Literal

from pydantic import ValidationError as PydanticError

from pipelines.costs.charges import HOUR_S, Price
from pipelines.costs.price_list import request_instance_price, request_serverless_price
from pipelines.costs.price_tables import (
    API_VALUE,
    DEFAULT_TABLE,
    PRICES_VARIABLE,
    PlanTerm,
    format_example,
    read_table,
    read_tables,
    require_no_api,
)
from pipelines.errors import DataError

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
        component: job or endpoint.
        as_of: use only tables of this day or of an earlier one; None: all.

    Raises:
        InvalidError: no table has the price, the table is not valid, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    require_no_api(as_of)
    if os.environ.get(PRICES_VARIABLE) == API_VALUE:
        return request_instance_price(instance_type, region, component, _format_hint())
    for path, table in read_tables(as_of):
        for group in table.prices:
            prices = group.usd_per_hour | (group.hosting_usd_per_hour if component == "Hosting" else {})
            if region in group.regions and instance_type in prices:
                price = {"usd_h": prices[instance_type], "date": table.as_of, "source": table.source or path.name}
                return _check_price(price, f"{path.name}: the price of {instance_type}")
    regions = {region for group in read_table(DEFAULT_TABLE).prices for region in group.regions}
    subject = f"{instance_type} in {region}" if region in regions else f"region {region}"
    day = f" on {as_of}" if as_of else ""
    raise DataError(f"no price is known for {subject}{day}.", _format_hint())


def list_prices(region: str) -> dict[str, float]:
    """List the instance types with a price in the tables, and the price of each, USD per hour; AWS is not requested.

    Raises:
        DataError: a table is not valid. A retry cannot help.
    """
    return {name: price.usd_h for name, price in list_dated_prices(region).items()}


def list_dated_prices(region: str, as_of: dt.date | None = None) -> dict[str, Price]:
    """List the instance types with a price in the tables, and the dated price of each; AWS is not requested.

    Args:
        region: AWS region.
        as_of: use only tables of this day or of an earlier one; None: all.

    Raises:
        DataError: a table is not valid. A retry cannot help.
    """
    prices: dict[str, Price] = {}
    for path, table in read_tables(as_of):
        for group in table.prices:
            if region in group.regions:
                for name in group.usd_per_hour.keys() - prices.keys():
                    price = {"usd_h": group.usd_per_hour[name], "date": table.as_of}
                    source = {"source": table.source or path.name}
                    prices[name] = _check_price(price | source, f"{path.name}: the price of {name}")
    return prices


def list_spot_savings(region: str, as_of: dt.date | None = None) -> dict[str, float]:
    """List the share, 0 to 1, by which spot is typically cheaper than on demand, of the types for which it is known.

    Arguments and errors: as `list_dated_prices`.
    """
    savings: dict[str, float] = {}
    for _, table in read_tables(as_of):
        for group in table.prices:
            if region in group.regions:
                savings = group.spot_saving | savings
    return savings


def list_plan_prices(region: str, term: PlanTerm, as_of: dt.date | None = None) -> dict[str, Price]:
    """List the prices of training with a savings plan, USD per hour, of the types for which they are known.

    Arguments and errors: as `list_dated_prices`.
    """
    prices: dict[str, Price] = {}
    for path, table in read_tables(as_of):
        for group in table.prices:
            if region in group.regions:
                for name, usd_h in group.savings_plan_usd_per_hour.get(term, {}).items():
                    price = {"usd_h": usd_h, "date": table.as_of, "source": table.source or path.name}
                    prices.setdefault(name, _check_price(price, f"{path.name}: the savings plan of {name}"))
    return prices


def find_serverless_price(region: str) -> Price:
    """Find the price of a serverless endpoint in a region, USD per hour of work with 1 GB of memory.

    Raises:
        InvalidError: no table has the price, the table is not valid, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    if os.environ.get(PRICES_VARIABLE) == API_VALUE:
        return request_serverless_price(region, _format_serverless_hint())
    for path, table in read_tables():
        prices = table.serverless
        if prices and region in prices.usd_per_gb_second:
            source = prices.source or table.source or path.name
            usd_h = round(prices.usd_per_gb_second[region] * HOUR_S, 10)
            price = {"usd_h": usd_h, "date": prices.as_of or table.as_of, "source": source}
            return _check_price(price, f"{path.name}: the price of serverless endpoints")
    raise DataError(f"no price is known for serverless endpoints in {region}.", _format_serverless_hint())


def _check_price(fields: dict[str, Any], subject: str) -> Price:
    try:
        return Price(**fields)
    except PydanticError:
        raise DataError(f"{subject} must be more than 0.") from None


def _format_hint() -> str:
    return f"Set {PRICES_VARIABLE}={API_VALUE} to use AWS's price list, or to a file: {format_example()}"


def _format_serverless_hint() -> str:
    example = {"as_of": "YYYY-MM-DD", "serverless": {"usd_per_gb_second": {"REGION": 2e-5}}}
    return f"Set {PRICES_VARIABLE}={API_VALUE} to use AWS's price list, or to a file: {json.dumps(example)}"
