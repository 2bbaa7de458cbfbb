"""Store the spot prices that clients of this server set, and find the prices of a period."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from drydock.errors import truncate
from drydock.regions import list_regions
from drydock.store import Store

INSTANCE_TYPE = re.compile(r"(?!ml\.)[a-z0-9-]{1,100}\.[a-z0-9-]{1,100}")
ML_PREFIX = "ml."
MIN_YEAR, MAX_YEAR = 1970, 2999
"""Years that a price may have. In the years 1 and 9999, some time zones make a time that clients cannot read."""
MIN_USD_H, MAX_USD_H = 1e-6, 1e6
"""Bounds of a price, US dollars an hour. EC2's prices have six decimals."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS spot_prices (
    region TEXT, instance_type TEXT, zone TEXT, at REAL, usd_h REAL, PRIMARY KEY (region, instance_type, zone, at)
) WITHOUT ROWID;
"""
_READ = "SELECT zone, at, usd_h FROM spot_prices WHERE region = ? AND instance_type = ? AND at <= ? ORDER BY at, zone"


class InvalidPrice(ValueError):
    """A name, a price or its time is not valid. A retry cannot help."""


@dataclass(frozen=True)
class SpotPrice:
    """A price of an instance type in a zone, valid from the time `at`."""

    instance_type: str
    zone: str
    at: datetime
    usd_h: float


class SpotPrices:
    """The spot prices of all regions, the same for all accounts. Safe for several threads.

    Args:
        store: The server's storage.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        store.create_tables(SCHEMA)

    def write(self, region: str, instance_type: str, zone: str, prices: Sequence[tuple[str, float]]) -> None:
        """Add prices of a zone, all or none. A price replaces the stored price of the same time. Idempotent.

        Args:
            region: The region.
            instance_type: EC2's name of the type, such as m5.large.
            zone: The zone, such as us-east-1a.
            prices: Time in ISO 8601 (UTC, if it has no time zone), and price in US dollars an hour.

        Raises:
            InvalidPrice: A name, a time or a price is not valid. A retry cannot help.
        """
        _check_names(region, instance_type, zone)
        rows = [(region, instance_type, zone, *_parse_price(begin, usd_h)) for begin, usd_h in prices]
        with self._store.transaction() as db:
            db.executemany("INSERT OR REPLACE INTO spot_prices VALUES (?, ?, ?, ?, ?)", rows)

    def list_types(self, region: str) -> list[str]:
        """Return the instance types that have a price in a region."""
        statement = "SELECT DISTINCT instance_type FROM spot_prices WHERE region = ? ORDER BY instance_type"
        return [name for (name,) in self._store.query(statement, (region,))]

    def find(self, region: str, instance_type: str, begin: datetime, end: datetime) -> Iterator[SpotPrice]:
        """Yield the prices from `begin` to `end`, and before them each zone's price that is valid at `begin`."""
        rows = self._store.query(_READ, (region, instance_type, end.timestamp()))
        begin_s = begin.timestamp()
        last_times = {zone: at for zone, at, _ in rows if at <= begin_s}
        for zone, at, usd_h in rows:
            if at > begin_s or last_times[zone] == at:
                yield SpotPrice(instance_type, zone, datetime.fromtimestamp(at, UTC), usd_h)

    def delete_all(self) -> None:
        """Delete the prices of all regions."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM spot_prices")


def _check_names(region: str, instance_type: str, zone: str) -> None:
    """Check the names: if a misspelled name were stored, clients would find no price, and get no error."""
    if not INSTANCE_TYPE.fullmatch(instance_type):
        hint = f": leave out {ML_PREFIX}" if instance_type.startswith(ML_PREFIX) else ""
        raise InvalidPrice(
            f"instance_type must be EC2's name, such as m5.large, not {truncate(instance_type, 60)!r}{hint}"
        )
    if region not in list_regions():
        raise InvalidPrice(f"region must be a region of AWS, such as us-east-1, not {truncate(region, 60)!r}")
    if not re.fullmatch(f"{re.escape(region)}[a-z0-9-]+", zone):
        raise InvalidPrice(f"zone must be a zone of {region}, such as {region}a, not {truncate(zone, 60)!r}")


def _parse_price(begin: object, usd_h: object) -> tuple[float, float]:
    """Return the time of a price in seconds since 1970, and the price in US dollars an hour."""
    try:
        moment = datetime.fromisoformat(str(begin))
    except ValueError:
        raise InvalidPrice(f"a time must have the form 2026-01-31T12:00:00+00:00, not {str(begin)[:60]!r}") from None
    if not MIN_YEAR <= moment.year <= MAX_YEAR:
        raise InvalidPrice(f"the year of a time must be {MIN_YEAR} to {MAX_YEAR}, not {moment.year}")
    if isinstance(usd_h, bool) or not isinstance(usd_h, int | float) or not MIN_USD_H <= usd_h <= MAX_USD_H:
        text = truncate(repr(usd_h), 60) if isinstance(usd_h, float | str) else type(usd_h).__name__
        raise InvalidPrice(f"a price must be a number of US dollars from {MIN_USD_H:f} to {MAX_USD_H:g}, not {text}")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), float(usd_h)
