"""Replace moto's history of spot prices, in which all types have one constant price, by prices that clients set."""

import base64
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2 import urls
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.responses import EC2Response

from drydock.ec2.spot_prices import SpotPrice, SpotPrices
from drydock.errors import truncate
from drydock.moto_registry import bind_arguments

Condition = tuple[str, re.Pattern[str]]
"""The name of a filter, and a pattern of the values that it selects."""

PRODUCT = "Linux/UNIX"
"""The only product that has prices."""
MAX_PAGE_SIZE = 1_000
"""Largest number of prices in a page."""
_PARAMETERS = {
    "AvailabilityZone": "availability-zone",
    "InstanceTypes": "instance-type",
    "ProductDescriptions": "product-description",
}
"""Maps each parameter to the filter that has the same effect."""
_VALUES: dict[str, Callable[[SpotPrice], str]] = {
    "availability-zone": lambda price: price.zone,
    "instance-type": lambda price: price.instance_type,
    "product-description": lambda _: PRODUCT,
    "spot-price": lambda price: _format_price(price.usd_h),
    "timestamp": lambda price: f"{price.at:%Y-%m-%dT%H:%M:%S.000Z}",
}
"""Maps each filter to a function that returns the property of a price that the filter compares, as a text."""


class SpotPriceResponse(EC2Response):
    """moto's HTTP responses of EC2, and the history of spot prices."""

    def describe_spot_price_history(self) -> ActionResult:
        """Answer DescribeSpotPriceHistory: newest prices first. A type without prices has an empty history."""
        self.error_on_dryrun()
        conditions = [*self._read_parameters(), *self._read_filters()]
        begin, end = (self._read_time(name) for name in ("StartTime", "EndTime"))
        prices = self._find_prices(conditions, begin, end) if begin <= end else []
        return self._build_page(
            sorted(prices, key=lambda price: (price.at, price.instance_type, price.zone), reverse=True)
        )

    def _find_prices(self, conditions: Sequence[Condition], begin: datetime, end: datetime) -> list[SpotPrice]:
        spot_prices: SpotPrices = self.ec2_backend.spot_prices
        type_patterns = [pattern for name, pattern in conditions if name == "instance-type"]
        return [
            price
            for instance_type in spot_prices.list_types(self.region)
            if all(pattern.fullmatch(instance_type) for pattern in type_patterns)
            for price in spot_prices.find(self.region, instance_type, begin, end)
            if all(pattern.fullmatch(_VALUES[name](price)) for name, pattern in conditions)
        ]

    def _read_parameters(self) -> list[Condition]:
        """Return the conditions that the parameters set."""
        values = {name: self._get_param(parameter) for parameter, name in _PARAMETERS.items()}
        return [
            (name, _compile_pattern(value if isinstance(value, list) else [value]))
            for name, value in values.items()
            if value
        ]

    def _read_filters(self) -> list[Condition]:
        """Return the conditions that the filters set. In a value, * stands for any text, and ? for one character."""
        filters = self._filters_from_querystring()
        if unknown_names := sorted(filters.keys() - _VALUES.keys()):
            raise EC2ClientError("InvalidParameterValue", f"The filter '{unknown_names[0]}' is invalid")
        return [(name, _compile_pattern(values, has_wildcards=True)) for name, values in filters.items()]

    def _read_time(self, name: str) -> datetime:
        """Return a time of the request, by default the current time, which selects only the current prices."""
        moment: datetime | None = self._get_param(name)
        if moment is None:
            return datetime.now(UTC)
        try:
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except OverflowError:
            raise _build_value_error(name, moment, "a time of the years 1 to 9999") from None

    def _build_page(self, prices: list[SpotPrice]) -> ActionResult:
        begin = _parse_token(self._get_param("NextToken"))
        end = begin + self._read_page_size()
        token = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(prices) else ""
        return ActionResult({"SpotPriceHistory": [_describe(item) for item in prices[begin:end]], "NextToken": token})

    def _read_page_size(self) -> int:
        size: int = self._get_int_param("MaxResults", MAX_PAGE_SIZE)
        if size < 1:
            raise _build_value_error("MaxResults", size, f"a number from 1 to {MAX_PAGE_SIZE}")
        return min(size, MAX_PAGE_SIZE)


class SpotPriceBackend(EC2Backend):
    """moto's EC2 of one account and region, with the spot prices.

    Args:
        spot_prices: The spot prices of all regions.
        region_name: The region.
        account_id: The account.
    """

    def __init__(self, spot_prices: SpotPrices, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.spot_prices = spot_prices

    @property
    def url_bases(self) -> list[str]:
        """The host names at which moto serves EC2."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The path at which moto serves EC2, with the handler that also answers DescribeSpotPriceHistory."""
        return {"/": SpotPriceResponse.dispatch}


def install(spot_prices: SpotPrices) -> None:
    """Make moto use `SpotPriceBackend`."""
    ec2_backends.clear()
    ec2_backends.backend = bind_arguments(SpotPriceBackend, spot_prices)


def _compile_pattern(values: Sequence[Any], *, has_wildcards: bool = False) -> re.Pattern[str]:
    """Return a pattern that matches each of the values."""
    texts = [re.escape(str(value)) for value in values]
    if has_wildcards:
        texts = [text.replace(r"\*", ".*").replace(r"\?", ".") for text in texts]
    return re.compile("|".join(texts))


def _describe(price: SpotPrice) -> dict[str, Any]:
    return {
        "AvailabilityZone": price.zone,
        "InstanceType": price.instance_type,
        "ProductDescription": PRODUCT,
        "SpotPrice": _format_price(price.usd_h),
        "Timestamp": price.at,
    }


def _format_price(usd_h: float) -> str:
    return f"{usd_h:.6f}"


def _parse_token(token: str | None) -> int:
    try:
        text = base64.urlsafe_b64decode(token).decode("ascii") if token else "0"
    except ValueError:
        text = ""
    if not re.fullmatch("[0-9]{1,18}", text):
        raise EC2ClientError("InvalidNextToken", "The token is invalid.")
    return int(text)


def _build_value_error(name: str, value: object, rule: str) -> EC2ClientError:
    """Return the error for an invalid value of a parameter."""
    text = f"Value ( {truncate(str(value), 60)} ) for parameter {name} is invalid. Expecting {rule}."
    return EC2ClientError("InvalidParameterValue", text)
