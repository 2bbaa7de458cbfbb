"""Replace moto's history of spot prices, one constant price of all types, by the prices that clients have set."""

import base64
from datetime import UTC, datetime
from typing import Any

from botocore.utils import parse_timestamp
from moto.core.responses import ActionResult
from moto.ec2 import urls
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.responses import EC2Response

from drydock.ec2.spot_prices import SpotPrice, SpotPrices
from drydock.moto_registry import bind_arguments

PRODUCT = "Linux/UNIX"
"""The only product that has prices."""
MAX_PAGE = 1_000
_FILTERS = {"instance-type": "InstanceTypes", "product-description": "ProductDescriptions"}
"""Filters that select the same as a parameter."""


class SpotPriceResponse(EC2Response):
    """moto's HTTP responses of EC2, and the history of spot prices."""

    def describe_spot_price_history(self) -> ActionResult:
        """Answer DescribeSpotPriceHistory: newest prices first. A type without prices has an empty history."""
        filters = {name: [str(value) for value in values] for name, values in self._filters_from_querystring().items()}
        if unknown_filters := sorted(filters.keys() - {"availability-zone", *_FILTERS}):
            raise EC2ClientError("InvalidParameterValue", f"The filter '{unknown_filters[0]}' is invalid")
        choices = {name: self._get_param(member) or filters.get(name) for name, member in _FILTERS.items()}
        zone = self._get_param("AvailabilityZone")
        zones = [zone] if zone else filters.get("availability-zone")
        prices = self._list_prices(choices["instance-type"])
        if choices["product-description"] and PRODUCT not in choices["product-description"]:
            prices = []
        return self._build_page([price for price in prices if not zones or price.zone in zones])

    def _list_prices(self, instance_types: list[str] | None) -> list[SpotPrice]:
        spot_prices: SpotPrices = self.ec2_backend.spot_prices
        begin, end = (self._read_time(name) for name in ("StartTime", "EndTime"))
        names = instance_types or spot_prices.list_types(self.region)
        prices = [price for name in names for price in spot_prices.find(self.region, name, begin, end)]
        return sorted(prices, key=lambda price: (price.at, price.instance_type, price.zone), reverse=True)

    def _read_time(self, name: str) -> datetime:
        """Return a time of the request. Without one, it is now: then the history has only the present prices."""
        value = self._get_param(name)
        if not value:
            return datetime.now(UTC)
        moment: datetime = value if isinstance(value, datetime) else parse_timestamp(value)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def _build_page(self, prices: list[SpotPrice]) -> ActionResult:
        begin = _parse_token(self._get_param("NextToken"))
        end = begin + min(self._get_int_param("MaxResults") or MAX_PAGE, MAX_PAGE)
        token = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(prices) else ""
        return ActionResult({"SpotPriceHistory": [_describe(item) for item in prices[begin:end]], "NextToken": token})


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
        """The path at which moto serves EC2, with the handler that knows the spot prices."""
        return {"/": SpotPriceResponse.dispatch}

    def reset(self) -> None:
        """Delete all resources and prices, for moto's /moto-api/reset."""
        arguments = (self.spot_prices, self.region_name, self.account_id)
        self.spot_prices.delete_all()
        self.__dict__.clear()
        SpotPriceBackend.__init__(self, *arguments)


def install(spot_prices: SpotPrices) -> None:
    """Make moto use this backend."""
    ec2_backends.clear()
    ec2_backends.backend = bind_arguments(SpotPriceBackend, spot_prices)


def _describe(price: SpotPrice) -> dict[str, Any]:
    return {
        "AvailabilityZone": price.zone,
        "InstanceType": price.instance_type,
        "ProductDescription": PRODUCT,
        "SpotPrice": f"{price.usd_h:.6f}",
        "Timestamp": price.at,
    }


def _parse_token(token: str | None) -> int:
    try:
        return int(base64.urlsafe_b64decode(token or "")) if token else 0
    except ValueError:
        raise EC2ClientError("InvalidNextToken", "The token is invalid.") from None
