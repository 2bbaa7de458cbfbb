"""Read the dated tables of prices: the table of LEEWAY_PRICES, those of the project, and the one of this package."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as PydanticError

from pipelines.contract import describe_errors
from pipelines.errors import DataError, SpecError
from pipelines.settings import settings

PRICES_VARIABLE = "LEEWAY_PRICES"
"""Environment variable with the path of another table of prices, or with `API_VALUE`."""
API_VALUE = "api"
"""Value of the variable `PRICES_VARIABLE` that says that prices are requested from AWS."""
DEFAULT_TABLE = Path(__file__).with_name("prices.json")
FOLDER = "prices"
"""Folder of the project with the tables that `prices refresh` writes, one for each day: YYYY-MM-DD.json."""
MAX_BYTES = 16 * 2**20
"""Largest size of a table. A table of all regions of AWS has less than 2 MB."""
MAX_AHEAD = dt.timedelta(days=1)
"""How much later than today in UTC the date of a table may be: east of Greenwich, the next day begins earlier."""
PlanTerm = Literal["1y", "3y"]
"""Term of a savings plan: one year or three years."""
Day = Annotated[dt.date, Field(strict=True)]
Usd = Annotated[float, Field(strict=True, gt=0, le=1e5, allow_inf_nan=False)]
"""Price of an instance, USD per hour. The most expensive one costs less than 1,000."""
UsdPerGbSecond = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
Saving = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]


class RegionGroup(BaseModel):
    """A group of regions with equal prices."""

    model_config = ConfigDict(extra="forbid")

    regions: list[str]
    source: str = ""
    """Source of these prices; empty: the source of the table."""
    note: str = ""
    usd_per_hour: dict[str, Usd]
    hosting_usd_per_hour: dict[str, Usd] = Field(default_factory=dict)
    """Prices of instances of endpoints, where they differ from `usd_per_hour`."""
    spot_saving: dict[str, Saving] = Field(default_factory=dict)
    """Share, 0 to 1, by which spot is typically cheaper than on demand. The saving of a missing type is not known."""
    savings_plan_usd_per_hour: dict[PlanTerm, dict[str, Usd]] = Field(default_factory=dict)
    """Prices of training with a savings plan, by its term. The price of a missing type is not known."""


class ServerlessPrices(BaseModel):
    """The prices of serverless endpoints."""

    model_config = ConfigDict(extra="forbid")

    as_of: Day | None = None
    """Date of these prices; null: the date of the table."""
    source: str = ""
    """Source of these prices; empty: the source of the table."""
    usd_per_gb_second: dict[str, UsdPerGbSecond]
    """Maps each region to the price of a second of work with 1 GB of memory."""


class PriceTable(BaseModel):
    """A table of prices: groups of regions that have the same prices, and prices of serverless endpoints."""

    model_config = ConfigDict(extra="forbid")

    as_of: Day
    source: str = ""
    note: str = ""
    currency: str = "USD"
    prices: list[RegionGroup] = Field(default_factory=list)
    serverless: ServerlessPrices | None = None


def read_tables(as_of: dt.date | None = None) -> Iterator[tuple[Path, PriceTable]]:
    """Yield the tables in the order of the search: LEEWAY_PRICES, the project's tables (newest first), the package's.

    Args:
        as_of: only tables of this day or earlier; None: all tables.

    Raises:
        DataError: a table is not valid. A retry cannot help.
    """
    configured_name = os.environ.get(PRICES_VARIABLE, "")
    # Path.expanduser raises an error for a user that does not exist.
    configured_paths = [] if configured_name in ("", API_VALUE) else [Path(os.path.expanduser(configured_name))]  # noqa: PTH111
    project_paths = sorted((settings().project / FOLDER).glob("????-??-??.json"), reverse=True)
    if as_of is not None:
        project_paths = [path for path in project_paths if path.stem <= str(as_of)]
    for path in (*configured_paths, *project_paths, DEFAULT_TABLE):
        table = read_table(path)
        if path in project_paths and path.stem != str(table.as_of):
            raise DataError(f"{path} has as_of {table.as_of}.", f"Rename it to {table.as_of}.json, or correct as_of.")
        if as_of is None or table.as_of <= as_of:
            yield path, table


def list_groups(region: str, as_of: dt.date | None = None) -> Iterator[tuple[RegionGroup, dict[str, Any]]]:
    """Yield the groups of prices of a region, and the date and source of each, in the order of `read_tables`.

    Raises:
        DataError: a table is not valid. A retry cannot help.
    """
    for path, table in read_tables(as_of):
        for group in table.prices:
            if region in group.regions:
                yield group, {"date": table.as_of, "source": group.source or table.source or path.name}


def is_api_used() -> bool:
    """Return whether prices are requested from AWS."""
    return os.environ.get(PRICES_VARIABLE) == API_VALUE


def require_no_api(as_of: dt.date | None) -> None:
    """Check that prices of a past day are not requested from AWS, which has only today's prices.

    Raises:
        SpecError: prices of a past day are requested from AWS. A retry cannot help.
    """
    if as_of is not None and is_api_used():
        raise SpecError(
            f"AWS's price list has only today's prices, not those of {as_of}.",
            f"Unset {PRICES_VARIABLE} to use the tables in {FOLDER}/.",
        )


def read_table(path: Path) -> PriceTable:
    """Read a table of prices.

    Raises:
        DataError: the file is missing, is no regular file, is too large, is not a table, has another currency than
            USD, is of a day that has not come, or has two prices of a type in a region. A retry cannot help.
    """
    try:
        table = PriceTable.model_validate_json(_read_bytes(path))
    except PydanticError as error:
        problems = describe_errors(error.errors())
        raise DataError(f"{path} is not a table of prices: {problems}.", format_example()) from None
    except OSError as error:
        raise DataError(
            f"the table of prices {path} cannot be read: {error.strerror}.",
            f"{PRICES_VARIABLE} is the path of a file, or {API_VALUE}, or not set.",
        ) from None
    _check_table(path, table)
    return table


def _read_bytes(path: Path) -> bytes:
    """Return the content of a table.

    Raises:
        DataError: it is not a regular file, or too large. Reading a pipe or a device might never end.
        OSError: it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise DataError(f"the table of prices {path} is not a regular file.", format_example())
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DataError(f"the table of prices {path} has more than {MAX_BYTES >> 20} MB.", format_example())
    return content


def _check_table(path: Path, table: PriceTable) -> None:
    if table.currency != "USD":
        raise DataError(f"the prices of {path} are in {table.currency}.", "Convert them: all prices are in USD.")
    if not table.prices and table.serverless is None:
        raise DataError(f"{path} is not a table of prices: it has neither prices nor serverless.", format_example())
    latest_day = dt.datetime.now(dt.UTC).date() + MAX_AHEAD
    for day in (table.as_of, table.serverless.as_of if table.serverless else None):
        if day and day > latest_day:
            raise DataError(f"{path} is of {day}, which has not come.", "Correct as_of: the newest table wins.")
    counts = Counter(
        (name, region) for group in table.prices for region in group.regions for name in group.usd_per_hour
    )
    for (name, region), count in counts.items():
        if count > 1:
            raise DataError(f"{path} has two prices of {name} in {region}.", "Remove one of them.")


def format_example() -> str:
    """Return an example of a table, for the hints of errors."""
    group = {"regions": ["REGION"], "usd_per_hour": {"ml.TYPE": 0.1}}
    return json.dumps({"as_of": "YYYY-MM-DD", "prices": [group]})
