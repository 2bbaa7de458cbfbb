"""What an instance of SageMaker training costs on demand.

Read from the dated table beside this file; LEEWAY_PRICES names a table of one's own whose prices come first, or `api`:
then AWS is asked (pricing:GetProducts). Every price carries its date.
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

VARIABLE = "LEEWAY_PRICES"
API = "api"
OWN = Path(__file__).with_name("prices.json")
API_REGION = "us-east-1"
"""Where AWS serves the prices of all regions."""


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid")

    regions: list[str]
    usd_per_hour: dict[str, float]


class _Table(BaseModel):
    """The file: regions in groups of equal prices."""

    model_config = ConfigDict(extra="forbid")

    as_of: dt.date
    source: str = ""
    note: str = ""
    prices: list[_Group] = Field(min_length=1)


def price(instance_type: str, region: str) -> Price:
    """The on-demand price of an instance type in a region.

    Raises:
        InvalidError: no table has it, the table is not valid, or AWS does not let us ask. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    told = os.environ.get(VARIABLE, "")
    if told == API:
        return _from_aws(instance_type, region)
    tables = [Path(told).expanduser()] if told else []
    for path in (*tables, OWN):
        found = _from_table(_read(path), instance_type, region, path)
        if found:
            return found
    raise _unknown(instance_type, region)


def _from_table(table: _Table, instance_type: str, region: str, path: Path) -> Price | None:
    for group in table.prices:
        if region in group.regions and instance_type in group.usd_per_hour:
            try:
                usd_h = group.usd_per_hour[instance_type]
                return Price(usd_h=usd_h, date=table.as_of, source=table.source or path.name)
            except PydanticError:
                raise DataError(f"{path.name}: the price of {instance_type} must be more than 0.") from None
    return None


def _read(path: Path) -> _Table:
    try:
        return _Table.model_validate_json(path.read_text(encoding="utf-8"))
    except PydanticError as error:
        raise DataError(f"{path.name} is no table of prices: {describe_errors(error.errors())}.", _example()) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise DataError(f"{VARIABLE}={path}: {reason}.", f"Name a file, or {API}, or unset it.") from None


def _unknown(instance_type: str, region: str) -> DataError:
    regions = {region for group in _read(OWN).prices for region in group.regions}
    what = f"{instance_type} in {region}" if region in regions else f"region {region}"
    return DataError(f"no price is known for {what}.", f"Set {VARIABLE}={API} to ask AWS, or to a file: {_example()}")


def _example() -> str:
    group = {"regions": ["REGION"], "usd_per_hour": {"ml.TYPE": 0.1}}
    return json.dumps({"as_of": "YYYY-MM-DD", "prices": [group]})


def _from_aws(instance_type: str, region: str) -> Price:
    """The price of AWS's price list today.

    Its answer was seen in AWS's documentation only: from here AWS could not be asked.
    """
    wanted = {"regionCode": region, "component": "Training", "instanceName": instance_type}
    products = _products([{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()])
    found = {(usd_h, day) for product in products for usd_h, day in _hourly(product)}
    if not found:
        raise DataError(
            f"AWS's price list has no training on {instance_type} in {region}.",
            f"Is it spelled right? {VARIABLE} may also name a file: {_example()}",
        )
    # Where several are in force the dearest is said: a budget must not be too hopeful.
    usd_h, day = max(found)
    return Price(usd_h=usd_h, date=day, source="AWS Price List API")


def _products(filters: list[dict[str, str]]) -> list[dict[str, Any]]:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    patience = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 3})
    try:
        client = boto3.client("pricing", region_name=API_REGION, config=patience)
        pages = client.get_paginator("get_products").paginate(ServiceCode="AmazonSageMaker", Filters=filters)
        return [json.loads(product) for page in pages for product in page["PriceList"]]
    except ClientError as error:
        told = error.response["Error"]
        if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500 and told["Code"] != "ThrottlingException":
            hint = f"It takes pricing:GetProducts; with {VARIABLE} unset the table is used."
            raise InvalidError(f"AWS refused to tell prices: {told['Code']}: {told['Message']}.", hint) from None
        raise ServiceError(f"AWS's price list failed: {told['Code']}.") from None
    except BotoCoreError as error:
        raise ServiceError(
            f"AWS's price list does not answer: {error}.", f"Unset {VARIABLE}: then the table is used."
        ) from None


def _hourly(product: dict[str, Any]) -> list[tuple[float, dt.date]]:
    """The hourly on-demand prices of a product, with the date of the list that they are from."""
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    dimensions = [one for term in terms for one in term["priceDimensions"].values()]
    day = dt.date.fromisoformat(product["publicationDate"][:10])
    amounts = [float(one["pricePerUnit"].get("USD", 0)) for one in dimensions if one["unit"].startswith("H")]
    return [(amount, day) for amount in amounts if amount > 0]
