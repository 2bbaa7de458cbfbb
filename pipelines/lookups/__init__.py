"""Define lookups: features that the model server reads from the online store, because a request does not have them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lookup:
    """Features with one value for each key, such as the number of flights of an hour at an airport.

    The step `materialize` writes the lake's newest values to the online store, and the model server reads them there.
    """

    name: str
    """Name of the lookup: letters and digits. It is a part of the feature group's name."""
    features: Mapping[str, float | str | None]
    """Maps each feature to its default, which the server uses if there is no value, or if the value is too old or
    cannot be read. If the default is None, the feature is then missing."""
    key: Sequence[str]
    """Columns that identify the value: columns of the rows, or columns that the dataset's `features` adds to them. With
    the columns of the partition (`date`, for hours also `hour`), a row gets the value of its own partition. Without
    them, a row gets the newest value of an earlier partition: a request can get no newer one, so a row of training or
    scoring gets none either."""
    max_age: dt.timedelta
    """Largest age of a value: the time from the beginning of its partition to the beginning of the row's."""

    def is_of_earlier_partition(self, unit: str) -> bool:
        """Return whether a row gets a value of an earlier partition, because the key does not name the row's own.

        Args:
            unit: unit of the dataset's partitions: hour, day or month.
        """
        return not {"date", "hour"} <= set(self.key) if unit == "hour" else "date" not in self.key
