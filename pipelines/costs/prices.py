"""Find the on-demand price of a SageMaker training instance. Every price has a date.

The prices come from the dated table beside this file. The environment variable LEEWAY_PRICES can name another table,
which is read first. If it is `api`, the prices come from AWS instead (pricing:GetProducts).
"""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as PydanticError

from pipelines.contract import describe_errors
from pipelines.costs.charges import Price
from pipelines.errors import DataError, InvalidError, ServiceError

PRICES_VARIABLE = "LEEWAY_PRICES"
"""Environment variable with the path of another table of prices, or with `API_VALUE`."""
API_VALUE = "api"
"""Value of the variable with which prices are requested from AWS."""
DEFAULT_TABLE = Path(__file__).with_name("prices.json")
API_REGION = "us-east-1"
"""Region in which AWS serves the prices of all regions."""


class _RegionGroup(BaseModel):
    model_config = ConfigDict(extra="forbid")

    regions: list[str]
    usd_per_hour: dict[str, float]


class _Table(BaseModel):
    """A table of prices: groups of regions that have the same prices."""

    model_config = ConfigDict(extra="forbid")

    as_of: dt.date
    source: str = ""
    note: str = ""
    prices: list[_RegionGroup] = Field(min_length=1)


def find_price(instance_type: str, region: str) -> Price:
    """Find the on-demand price of an instance type in a region.

    Raises:
        InvalidError: no table has the price, the table is not valid, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    source = os.environ.get(PRICES_VARIABLE, "")
    if source == API_VALUE:
        return _request_price_from_aws(instance_type, region)
    tables = [Path(source).expanduser()] if source else []
    for path in (*tables, DEFAULT_TABLE):
        price = _find_price_in_table(_read_table(path), instance_type, region, path)
        if price:
            return price
    raise _build_unknown_price_error(instance_type, region)


def _find_price_in_table(table: _Table, instance_type: str, region: str, path: Path) -> Price | None:
    for group in table.prices:
        if region in group.regions and instance_type in group.usd_per_hour:
            try:
                usd_h = group.usd_per_hour[instance_type]
                return Price(usd_h=usd_h, date=table.as_of, source=table.source or path.name)
            except PydanticError:
                raise DataError(f"{path.name}: the price of {instance_type} must be more than 0.") from None
    return None


def _read_table(path: Path) -> _Table:
    try:
        return _Table.model_validate_json(path.read_text(encoding="utf-8"))
    except PydanticError as error:
        raise DataError(
            f"{path.name} is not a table of prices: {describe_errors(error.errors())}.", _format_example()
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise DataError(
            f"{PRICES_VARIABLE}={path}: {reason}.", f"Set it to a file or to {API_VALUE}, or unset it."
        ) from None


def _build_unknown_price_error(instance_type: str, region: str) -> DataError:
    regions = {region for group in _read_table(DEFAULT_TABLE).prices for region in group.regions}
    subject = f"{instance_type} in {region}" if region in regions else f"region {region}"
    hint = f"Set {PRICES_VARIABLE}={API_VALUE} to use AWS's price list, or to a file: {_format_example()}"
    return DataError(f"no price is known for {subject}.", hint)


def _format_example() -> str:
    group = {"regions": ["REGION"], "usd_per_hour": {"ml.TYPE": 0.1}}
    return json.dumps({"as_of": "YYYY-MM-DD", "prices": [group]})


def _request_price_from_aws(instance_type: str, region: str) -> Price:
    """Request today's price from AWS's price list.

    This follows AWS's documentation; it has not been tested with AWS.
    """
    fields = {"regionCode": region, "component": "Training", "instanceName": instance_type}
    products = _list_products([{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in fields.items()])
    prices = {(usd_h, day) for product in products for usd_h, day in _list_hourly_prices(product)}
    if not prices:
        raise DataError(
            f"AWS's price list has no price for training on {instance_type} in {region}.",
            f"Check the spelling, or set {PRICES_VARIABLE} to a file: {_format_example()}",
        )
    # If several prices are valid, use the highest, so that a budget is not exceeded.
    usd_h, day = max(prices)
    return Price(usd_h=usd_h, date=day, source="AWS Price List API")


def _list_products(filters: list[dict[str, str]]) -> list[dict[str, Any]]:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 3})
    try:
        client = boto3.client("pricing", region_name=API_REGION, config=config)
        pages = client.get_paginator("get_products").paginate(ServiceCode="AmazonSageMaker", Filters=filters)
        return [json.loads(product) for page in pages for product in page["PriceList"]]
    except ClientError as error:
        details = error.response["Error"]
        if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500 and details["Code"] != "ThrottlingException":
            hint = f"Allow pricing:GetProducts, or unset {PRICES_VARIABLE} to use the table of this package."
            raise InvalidError(
                f"AWS denies access to its price list: {details['Code']}: {details['Message']}.", hint
            ) from None
        raise ServiceError(f"AWS's price list failed: {details['Code']}.", "Run it again later.") from None
    except BotoCoreError as error:
        hint = f"Try again, or unset {PRICES_VARIABLE} to use the table of this package."
        raise ServiceError(f"AWS's price list does not answer: {error}.", hint) from None


def _list_hourly_prices(product: dict[str, Any]) -> list[tuple[float, dt.date]]:
    """List the hourly on-demand prices of a product, each with the publication date of the price list."""
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    dimensions = [dimension for term in terms for dimension in term["priceDimensions"].values()]
    day = dt.date.fromisoformat(product["publicationDate"][:10])
    amounts = [
        float(dimension["pricePerUnit"].get("USD", 0)) for dimension in dimensions if dimension["unit"].startswith("H")
    ]
    return [(amount, day) for amount in amounts if amount > 0]
