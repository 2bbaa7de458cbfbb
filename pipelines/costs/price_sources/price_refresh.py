"""Request today's prices of instance types from AWS, and write them as a dated table of the project.

On-demand prices come from AWS's price list, the typical saving by spot from EC2's spot price history, and the prices
with savings plans from AWS's list of their rates. The requests follow AWS's documentation. They were tested only with
stubs, not with AWS.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError as PydanticError

from pipelines.contract import describe_errors
from pipelines.costs.price_sources.aws_calls import call_aws, create_client
from pipelines.costs.price_sources.price_list import API_REGION, SOURCE, request_ec2_prices, request_type_prices
from pipelines.costs.price_sources.price_tables import FOLDER, PlanTerm, PriceTable, RegionGroup, read_table
from pipelines.errors import DataError, InvalidError
from pipelines.settings import create_home, settings
from pipelines.system.files import replace_file
from pipelines.system.locks import hold_lock
from pipelines.system.log import log

PLAN_TERMS: dict[int, PlanTerm] = {31_536_000: "1y", 94_608_000: "3y"}
"""Maps the duration of a savings plan, seconds, to its term."""
TRAINING_USAGE = re.compile(r"(?:^|-)Train(?:ing)?:(ml\..+)$")
"""Pattern of the usage type of training on an instance type, in the list of rates."""
PRODUCT = "Linux/UNIX"
"""Operating system whose spot prices are requested, as EC2 names it."""
TEMPORARY_FILES = ".????-??-??.json.????????"
"""Pattern of the temporary files that `replace_file` writes in the project's folder of prices."""
MAX_TYPES = 100
"""Largest number of instance types in one request for the spot price history."""


def request_prices(regions: Sequence[str], days: int, today: dt.date) -> PriceTable:
    """Request today's prices of regions.

    Args:
        regions: AWS regions.
        days: number of days of the spot price history from which the median price is computed.
        today: date of the table.

    Raises:
        InvalidError: a region has no prices, its prices are not valid or not in USD, or AWS denies access. A retry
            cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    return PriceTable(
        as_of=today,
        source=SOURCE,
        prices=[_request_region(region, days) for region in regions],
    )


def write_prices(table: PriceTable, path: Path | None = None) -> Path:
    """Write a complete table or nothing, and return its path. Idempotent.

    Prices of an existing file of the same day are kept if the table does not have them: those of other regions and of
    serverless endpoints. A file of another day is replaced. Temporary files that a killed process left in the project's
    folder are removed.

    Args:
        table: table of prices.
        path: file to write; None: the file of the table's day in the project.

    Raises:
        DataError: the existing file is not a table of prices. A retry cannot help.
    """
    folder = settings().project / FOLDER
    path = path or folder / f"{table.as_of}.json"
    create_home()
    with hold_lock(settings().home / "prices.lock"):
        for temporary_file in folder.glob(TEMPORARY_FILES):
            temporary_file.unlink(missing_ok=True)
        complete_table = _add_existing_prices(table, path)
        with replace_file(path) as temporary:
            text = complete_table.model_dump_json(indent=2, exclude_defaults=True)
            temporary.write_text(f"{text}\n", encoding="utf-8")
    return path


def _add_existing_prices(table: PriceTable, path: Path) -> PriceTable:
    """Return the table, with the prices added that only the existing file of the same day has."""
    old_table = read_table(path) if path.exists() else table
    if old_table is table or old_table.as_of != table.as_of:
        return table
    source = old_table.source or path.name
    new_regions = {region for group in table.prices for region in group.regions}
    groups = [
        group.model_copy(
            update={
                "regions": [region for region in group.regions if region not in new_regions],
                "source": group.source or source,
                "note": group.note or old_table.note,
            }
        )
        for group in old_table.prices
    ]
    serverless = table.serverless or old_table.serverless
    if serverless:
        serverless = serverless.model_copy(update={"source": serverless.source or source})
    remaining_groups = [group for group in groups if group.regions]
    return table.model_copy(update={"prices": [*remaining_groups, *table.prices], "serverless": serverless})


def _request_region(region: str, days: int) -> RegionGroup:
    prices = request_type_prices(region, "Training")
    if not prices:
        raise DataError(f"AWS's price list has no prices of SageMaker training in {region}.", "Check the spelling.")
    hosting = request_type_prices(region, "Hosting")
    fields = {
        "regions": [region],
        "note": f"spot_saving: 1 - median of EC2's spot prices of {days} days / EC2's on-demand price. Managed spot of "
        "SageMaker may differ. savings_plan_usd_per_hour: without upfront payment.",
        "usd_per_hour": dict(sorted(prices.items())),
        "hosting_usd_per_hour": {name: usd for name, usd in sorted(hosting.items()) if usd != prices.get(name)},
        "spot_saving": _request_spot_savings(region, sorted(prices), days),
        "savings_plan_usd_per_hour": _request_plan_prices(region),
    }
    try:
        return RegionGroup.model_validate(fields)
    except PydanticError as error:
        raise DataError(f"the prices of AWS in {region} are not valid: {describe_errors(error.errors())}.") from None


def _request_spot_savings(region: str, names: Sequence[str], days: int) -> dict[str, float]:
    """Return the typical saving by spot of each instance type that EC2 offers as spot."""
    ec2_prices = request_ec2_prices(region)
    types = [name.removeprefix("ml.") for name in names if name.removeprefix("ml.") in ec2_prices]
    spot_prices: dict[str, list[float]] = {}
    for begin in range(0, len(types), MAX_TYPES):
        for entry in _request_spot_history(region, types[begin : begin + MAX_TYPES], days):
            spot_prices.setdefault(entry["InstanceType"], []).append(float(entry["SpotPrice"]))
    savings = {
        f"ml.{name}": 1 - median(usd) / ec2_prices[name] for name, usd in spot_prices.items() if name in ec2_prices
    }
    return {name: round(share, 4) for name, share in sorted(savings.items()) if 0 <= share < 1}


def _request_spot_history(region: str, types: Sequence[str], days: int) -> list[dict[str, Any]]:
    end = dt.datetime.now(dt.UTC)

    def request() -> list[dict[str, Any]]:
        pages = (
            create_client("ec2", region)
            .get_paginator("describe_spot_price_history")
            .paginate(
                InstanceTypes=list(types),
                ProductDescriptions=[PRODUCT],
                StartTime=end - dt.timedelta(days=days),
                EndTime=end,
            )
        )
        return [entry for page in pages for entry in page["SpotPriceHistory"]]

    return call_aws("EC2's spot price history", "ec2:DescribeSpotPriceHistory", request)


def _request_plan_prices(region: str) -> dict[PlanTerm, dict[str, float]]:
    """Return the prices of training with savings plans by term.

    If AWS denies access or refuses the request, log a warning and return {}.
    """
    fields = {
        "savingsPlanTypes": ["SageMaker"],
        "savingsPlanPaymentOptions": ["No Upfront"],
        "products": ["SageMaker"],
        "filters": [{"name": "region", "values": [region]}],
    }

    def request() -> list[dict[str, Any]]:
        client, token, rates = create_client("savingsplans", API_REGION), "", []
        while True:
            token_argument = {"nextToken": token} if token else {}
            page = client.describe_savings_plans_offering_rates(**fields, **token_argument)
            rates += page["searchResults"]
            token = page.get("nextToken", "")
            if not token:
                return rates

    try:
        rates = call_aws("the list of savings plans", "savingsplans:DescribeSavingsPlansOfferingRates", request)
    except InvalidError as error:
        log.warning("the prices of savings plans are not known: %s", error)
        return {}
    prices: dict[PlanTerm, dict[str, float]] = {}
    for rate in rates:
        offering, usage_match = rate["savingsPlanOffering"], TRAINING_USAGE.search(rate.get("usageType", ""))
        term = PLAN_TERMS.get(int(offering["durationSeconds"]))
        usd_h = float(rate["rate"])
        if usage_match and term and offering["currency"] == "USD" and usd_h > 0:
            prices.setdefault(term, {})[usage_match[1]] = usd_h
    return {term: dict(sorted(by_type.items())) for term, by_type in sorted(prices.items())}
