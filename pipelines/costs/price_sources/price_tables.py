"""Read the dated tables of prices: that of LEEWAY_PRICES, those of the project, and that of this package."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

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
PlanTerm = Literal["1y", "3y"]
"""Term of a savings plan: one year or three years."""


class RegionGroup(BaseModel):
    """The prices of regions that have the same ones."""

    model_config = ConfigDict(extra="forbid")

    regions: list[str]
    usd_per_hour: dict[str, float]
    hosting_usd_per_hour: dict[str, float] = Field(default_factory=dict)
    """Prices of instances of endpoints that differ from those of `usd_per_hour`."""
    spot_saving: dict[str, float] = Field(default_factory=dict)
    """Share, 0 to 1, by which spot is typically cheaper than on demand. A type that is missing is not known."""
    savings_plan_usd_per_hour: dict[PlanTerm, dict[str, float]] = Field(default_factory=dict)
    """Prices of training with a savings plan, by its term. A type that is missing is not known."""


class ServerlessPrices(BaseModel):
    """The prices of serverless endpoints."""

    model_config = ConfigDict(extra="forbid")

    as_of: dt.date | None = None
    source: str = ""
    usd_per_gb_second: dict[str, float]
    """Maps each region to the price of a second of work with 1 GB of memory."""


class PriceTable(BaseModel):
    """A table of prices: groups of regions that have the same prices, and prices of serverless endpoints."""

    model_config = ConfigDict(extra="forbid")

    as_of: dt.date
    source: str = ""
    note: str = ""
    currency: str = "USD"
    prices: list[RegionGroup] = Field(default_factory=list)
    serverless: ServerlessPrices | None = None


def read_tables(as_of: dt.date | None = None) -> Iterator[tuple[Path, PriceTable]]:
    """Yield the tables in the order in which they are searched: LEEWAY_PRICES, the project's, the newest first, ours.

    Args:
        as_of: only tables of this day or of an earlier one; None: all.

    Raises:
        DataError: a table is not valid. A retry cannot help.
    """
    own_path = os.environ.get(PRICES_VARIABLE, "")
    own_paths = [] if own_path in ("", API_VALUE) else [Path(own_path).expanduser()]
    project_paths = sorted((settings().project / FOLDER).glob("????-??-??.json"), reverse=True)
    for path in (*own_paths, *project_paths, DEFAULT_TABLE):
        table = read_table(path)
        if as_of is None or table.as_of <= as_of:
            yield path, table


def require_no_api(as_of: dt.date | None) -> None:
    """Check that prices of a past day are not asked of AWS, which has only today's.

    Raises:
        SpecError: they are. A retry cannot help.
    """
    if as_of is not None and os.environ.get(PRICES_VARIABLE) == API_VALUE:
        raise SpecError(
            f"AWS's price list has only today's prices, not those of {as_of}.",
            f"Unset {PRICES_VARIABLE} to use the tables in {FOLDER}/.",
        )


def read_table(path: Path) -> PriceTable:
    """Read a table of prices.

    Raises:
        DataError: the file is missing, is not a table, or has another currency than USD. A retry cannot help.
    """
    try:
        table = PriceTable.model_validate_json(path.read_text(encoding="utf-8"))
    except PydanticError as error:
        raise DataError(
            f"{path.name} is not a table of prices: {describe_errors(error.errors())}.", format_example()
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise DataError(
            f"{PRICES_VARIABLE}={path}: {reason}.", f"Set it to a file or to {API_VALUE}, or unset it."
        ) from None
    if table.currency != "USD":
        raise DataError(f"the prices of {path.name} are in {table.currency}.", "Convert them: all prices are in USD.")
    if not table.prices and table.serverless is None:
        message = f"{path.name} is not a table of prices: it has neither prices nor serverless."
        raise DataError(message, format_example())
    for group in table.prices:
        wrong_types = [name for name, share in group.spot_saving.items() if not 0 <= share < 1]
        if wrong_types:
            raise DataError(
                f"{path.name}: the spot_saving of {wrong_types[0]} must be from 0 to 1, and less than 1, not "
                f"{group.spot_saving[wrong_types[0]]}."
            )
    return table


def format_example() -> str:
    """Return an example of a table, for the hints of errors."""
    group = {"regions": ["REGION"], "usd_per_hour": {"ml.TYPE": 0.1}}
    return json.dumps({"as_of": "YYYY-MM-DD", "prices": [group]})
