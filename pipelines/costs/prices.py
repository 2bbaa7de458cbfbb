"""Find the on-demand price, with its date, of a SageMaker instance or of a serverless endpoint.

The prices come from the dated table beside this file. The environment variable LEEWAY_PRICES can name another table,
which is read first. If it is `api`, the prices come from AWS instead (pricing:GetProducts).
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as PydanticError

from pipelines.contract import describe_errors
from pipelines.costs.charges import HOUR_S, Price
from pipelines.costs.price_list import request_instance_price, request_serverless_price
from pipelines.errors import DataError

PRICES_VARIABLE = "LEEWAY_PRICES"
"""Environment variable with the path of another table of prices, or with `API_VALUE`."""
API_VALUE = "api"
"""Value of the variable `PRICES_VARIABLE` that says that prices are requested from AWS."""
DEFAULT_TABLE = Path(__file__).with_name("prices.json")
Component = Literal["Training", "Hosting"]
"""Part of SageMaker that uses an instance, as AWS's price list names it: a job, or an endpoint."""


class _RegionGroup(BaseModel):
    model_config = ConfigDict(extra="forbid")

    regions: list[str]
    usd_per_hour: dict[str, float]
    hosting_usd_per_hour: dict[str, float] = Field(default_factory=dict)
    """Prices of instances of endpoints that differ from those of `usd_per_hour`."""


class _ServerlessPrices(BaseModel):
    model_config = ConfigDict(extra="forbid")

    as_of: dt.date | None = None
    source: str = ""
    usd_per_gb_second: dict[str, float]
    """Maps each region to the price of a second of work with 1 GB of memory."""


class _Table(BaseModel):
    """A table of prices: groups of regions that have the same prices, and prices of serverless endpoints."""

    model_config = ConfigDict(extra="forbid")

    as_of: dt.date
    source: str = ""
    note: str = ""
    prices: list[_RegionGroup] = Field(default_factory=list)
    serverless: _ServerlessPrices | None = None


def find_price(instance_type: str, region: str, component: Component = "Training") -> Price:
    """Find the on-demand price of an instance type in a region, USD per hour.

    A table has one price for both components, unless `hosting_usd_per_hour` gives another one for endpoints.

    Raises:
        InvalidError: no table has the price, the table is not valid, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    if os.environ.get(PRICES_VARIABLE) == API_VALUE:
        return request_instance_price(instance_type, region, component, _format_hint())
    for path, table in _read_tables():
        for group in table.prices:
            prices = group.usd_per_hour | (group.hosting_usd_per_hour if component == "Hosting" else {})
            if region in group.regions and instance_type in prices:
                price = {"usd_h": prices[instance_type], "date": table.as_of, "source": table.source or path.name}
                return _check_price(price, f"{path.name}: the price of {instance_type}")
    regions = {region for group in _read_table(DEFAULT_TABLE).prices for region in group.regions}
    subject = f"{instance_type} in {region}" if region in regions else f"region {region}"
    raise DataError(f"no price is known for {subject}.", _format_hint())


def list_prices(region: str) -> dict[str, float]:
    """List the instance types with a price in the tables, and the price of each, USD per hour; AWS is not requested.

    Raises:
        DataError: a table is not valid. A retry cannot help.
    """
    prices: dict[str, float] = {}
    for _, table in _read_tables():
        for group in table.prices:
            if region in group.regions:
                prices = group.usd_per_hour | prices
    return prices


def find_serverless_price(region: str) -> Price:
    """Find the price of a serverless endpoint in a region, USD per hour of work with 1 GB of memory.

    Raises:
        InvalidError: no table has the price, the table is not valid, or AWS denies access. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    if os.environ.get(PRICES_VARIABLE) == API_VALUE:
        return request_serverless_price(region, _format_serverless_hint())
    for path, table in _read_tables():
        prices = table.serverless
        if prices and region in prices.usd_per_gb_second:
            source = prices.source or table.source or path.name
            usd_h = round(prices.usd_per_gb_second[region] * HOUR_S, 10)
            price = {"usd_h": usd_h, "date": prices.as_of or table.as_of, "source": source}
            return _check_price(price, f"{path.name}: the price of serverless endpoints")
    raise DataError(f"no price is known for serverless endpoints in {region}.", _format_serverless_hint())


def _read_tables() -> Iterator[tuple[Path, _Table]]:
    """Yield the user's table, if there is one, then the table of this package."""
    own_path = os.environ.get(PRICES_VARIABLE, "")
    has_table = own_path not in ("", API_VALUE)
    for path in (*([Path(own_path).expanduser()] if has_table else []), DEFAULT_TABLE):
        yield path, _read_table(path)


def _check_price(fields: dict[str, Any], subject: str) -> Price:
    try:
        return Price(**fields)
    except PydanticError:
        raise DataError(f"{subject} must be more than 0.") from None


def _read_table(path: Path) -> _Table:
    try:
        table = _Table.model_validate_json(path.read_text(encoding="utf-8"))
    except PydanticError as error:
        raise DataError(
            f"{path.name} is not a table of prices: {describe_errors(error.errors())}.", _format_example()
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise DataError(
            f"{PRICES_VARIABLE}={path}: {reason}.", f"Set it to a file or to {API_VALUE}, or unset it."
        ) from None
    if not table.prices and table.serverless is None:
        message = f"{path.name} is not a table of prices: it has neither prices nor serverless."
        raise DataError(message, _format_example())
    return table


def _format_hint() -> str:
    return f"Set {PRICES_VARIABLE}={API_VALUE} to use AWS's price list, or to a file: {_format_example()}"


def _format_serverless_hint() -> str:
    example = {"as_of": "YYYY-MM-DD", "serverless": {"usd_per_gb_second": {"REGION": 2e-5}}}
    return f"Set {PRICES_VARIABLE}={API_VALUE} to use AWS's price list, or to a file: {json.dumps(example)}"


def _format_example() -> str:
    group = {"regions": ["REGION"], "usd_per_hour": {"ml.TYPE": 0.1}}
    return json.dumps({"as_of": "YYYY-MM-DD", "prices": [group]})
