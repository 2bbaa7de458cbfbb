"""Request prices from AWS's price list (pricing:GetProducts).

The requests follow AWS's documentation. They were tested only with a stub of the server, not with AWS.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable
from typing import Any

from pipelines.costs.charges import HOUR_S, Price
from pipelines.costs.price_sources.aws_calls import call_aws, create_client
from pipelines.errors import DataError

API_REGION = "us-east-1"
"""Region in which AWS serves the prices of all regions."""
SOURCE = "AWS Price List API"
SERVERLESS_USAGE = re.compile(r"ServerlessInf:Mem-(\d+)GB$")
"""Usage type of a serverless endpoint without provisioned concurrency; the regex group is its memory in GB."""


def request_instance_price(instance_type: str, region: str, component: str, hint: str) -> Price:
    """Request today's price of an instance type, USD per hour.

    Args:
        instance_type: instance type, such as ml.m5.large.
        region: AWS region.
        component: Training or Hosting.
        hint: what to do if the list has no such price.

    Raises:
        InvalidError: the list has no such price, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    filters = {"regionCode": region, "component": component, "instanceName": instance_type}
    prices = [price for product in _list_products(filters) for price in _list_prices(product, "H")]
    if not prices:
        message = f"AWS's price list has no price for {component.lower()} on {instance_type} in {region}."
        raise DataError(message, f"Check the spelling. {hint}")
    # If several prices are valid, the highest is used, so that a budget is not exceeded.
    usd_h, day = max(prices)
    return Price(usd_h=usd_h, date=day, source=SOURCE)


def request_serverless_price(region: str, hint: str) -> Price:
    """Request today's price of serverless endpoints, USD per hour in which they answer requests, for 1 GB of memory.

    The list has a price per second for each size of the memory. Arguments and errors: as `request_instance_price`.
    """
    prices = []
    for product in _list_products({"regionCode": region, "productFamily": "ML Serverless"}):
        match = SERVERLESS_USAGE.search(product.get("product", {}).get("attributes", {}).get("usagetype", ""))
        if match:
            prices += [(usd_s / int(match[1]), day) for usd_s, day in _list_prices(product, "S")]
    if not prices:
        raise DataError(f"AWS's price list has no price for serverless endpoints in {region}.", hint)
    usd_gb_s, day = max(prices)
    return Price(usd_h=round(usd_gb_s * HOUR_S, 10), date=day, source=SOURCE)


def request_type_prices(region: str, component: str) -> dict[str, float]:
    """Request today's on-demand prices of all instance types of SageMaker in a region, USD per hour.

    Args:
        region: AWS region.
        component: Training or Hosting.

    Raises:
        InvalidError: the prices have another currency, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    return _collect_prices(_list_products({"regionCode": region, "component": component}), "instanceName")


def request_ec2_prices(region: str) -> dict[str, float]:
    """Request today's on-demand prices of EC2's instance types with Linux in a region, USD per hour.

    Errors: as `request_type_prices`.
    """
    filters = {"regionCode": region, "operatingSystem": "Linux", "tenancy": "Shared"}
    filters |= {"preInstalledSw": "NA", "capacitystatus": "Used"}
    return _collect_prices(_list_products(filters, "AmazonEC2"), "instanceType")


def _collect_prices(products: Iterable[dict[str, Any]], attribute: str) -> dict[str, float]:
    """Return the highest hourly price of each value of an attribute.

    Raises:
        DataError: a price has another currency than USD.
    """
    prices: dict[str, float] = {}
    for product in products:
        _require_usd(product)
        name = product.get("product", {}).get("attributes", {}).get(attribute, "")
        for usd_h, _ in _list_prices(product, "H"):
            prices[name] = max(usd_h, prices.get(name, 0.0))
    prices.pop("", None)
    return prices


def _require_usd(product: dict[str, Any]) -> None:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            currencies = dimension["pricePerUnit"].keys()
            if currencies and "USD" not in currencies:
                raise DataError(
                    f"AWS's price list has prices in {', '.join(sorted(currencies))}, and all prices here are in USD.",
                    "Write a table of your own with converted prices: see docs/reference/costs.md.",
                )


def _list_products(filters: dict[str, str], service: str = "AmazonSageMaker") -> list[dict[str, Any]]:
    fields = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in filters.items()]

    def request() -> list[dict[str, Any]]:
        paginator = create_client("pricing", API_REGION).get_paginator("get_products")
        pages = paginator.paginate(ServiceCode=service, Filters=fields)
        return [json.loads(product) for page in pages for product in page["PriceList"]]

    alternative = "unset LEEWAY_PRICES to use the table of this package"
    return call_aws("AWS's price list", "pricing:GetProducts", request, alternative)


def _list_prices(product: dict[str, Any], unit: str) -> list[tuple[float, dt.date]]:
    """List the on-demand prices of a product, each with the publication date of the price list.

    Args:
        product: a product of the list.
        unit: first letter of the unit, in upper case: H for Hrs, S for Seconds.
    """
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    dimensions = [dimension for term in terms for dimension in term["priceDimensions"].values()]
    day = dt.date.fromisoformat(product["publicationDate"][:10])
    amounts = [
        float(dimension["pricePerUnit"].get("USD", 0))
        for dimension in dimensions
        if dimension["unit"].upper().startswith(unit)
    ]
    return [(amount, day) for amount in amounts if amount > 0]
