"""A wrong lookup is one line that names the problem; another declaration has another feature group."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from typing import Any

import pytest

from pipelines.datasets.flights import DATASET
from pipelines.errors import SpecError
from pipelines.online.declarations import name_group, require_lookups

(HOUR,) = DATASET.lookups


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "by hour"}, "the lookup 'by hour' of flights has a name that is not"),
        ({"features": {}}, "needs features and a key"),
        ({"key": ()}, "needs features and a key"),
        ({"features": {"speed": 1}}, "has speed, which is not in `features` of the dataset"),
        ({"key": ("date", "weather_temp")}, "has the key weather_temp, which is a looked-up feature"),
        ({"max_age": dt.timedelta(-1)}, "has a negative max_age"),
        ({"features": {"departures_hour": "many"}}, "has a default that does not fit the kind of departures_hour"),
        ({"features": {"carrier": 1}}, "has a default that does not fit the kind of carrier"),
        ({"features": {"departures_hour": True}}, "has a default that does not fit the kind of departures_hour"),
    ],
)
def test_a_wrong_lookup_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        require_lookups(replace(DATASET, lookups=[replace(HOUR, **changes)]))


def test_lookups_differ_in_name_and_features() -> None:
    with pytest.raises(SpecError, match="two lookups of flights have the same name"):
        require_lookups(replace(DATASET, lookups=[HOUR, HOUR]))
    with pytest.raises(SpecError, match=r"has departures_hour, .*, which another lookup has, too"):
        require_lookups(replace(DATASET, lookups=[HOUR, replace(HOUR, name="other")]))
    with pytest.raises(SpecError, match="the dataset flights has no lookups"):
        require_lookups(replace(DATASET, lookups=[]))
    odd = replace(DATASET, features={"a b": "number"}, lookups=[replace(HOUR, features={"a b": None})])
    with pytest.raises(SpecError, match="has a b; the store allows letters"):
        require_lookups(odd)
    assert require_lookups(DATASET) == [HOUR]


def test_another_declaration_has_another_group() -> None:
    names = {
        name_group(DATASET, HOUR),
        name_group(DATASET, replace(HOUR, key=("date", "origin"))),
        name_group(DATASET, replace(HOUR, features={"departures_hour": 21})),
        name_group(replace(DATASET, name="flight_delay"), HOUR),
        name_group(replace(DATASET, name="ä" * 100), HOUR),
    }
    assert len(names) == 5
    assert all(re.fullmatch("[a-zA-Z0-9]([_-]*[a-zA-Z0-9]){0,63}", name) for name in names)
    # Defaults and the age are the server's: they need no other values.
    same = replace(HOUR, features={**HOUR.features, "departures_hour": 5}, max_age=dt.timedelta(9))
    assert name_group(DATASET, same) == name_group(DATASET, HOUR)
