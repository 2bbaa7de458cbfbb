"""Parse the spot policy, which says when spot jobs are interrupted, when they get no capacity, and what they cost.

It is the table [spot] of the configuration file; the options of the command line override its values.
"""

import math
from collections.abc import Mapping
from typing import Any

from drydock.errors import InvalidSetting
from drydock.faults.spot_market import Schedule, SpotPolicy

SCHEDULES_KEY = "interrupt"
NUMBER_KEYS = ("interruption_probability", "notice_s", "no_capacity_s", "billable_fraction")
"""Keys whose value is a number."""
KEYS = ("seed", *NUMBER_KEYS, "without_capacity", SCHEDULES_KEY)
"""All keys of the table."""


def parse_policy(table: Mapping[str, Any]) -> SpotPolicy:
    """Return the policy of a [spot] table.

    Raises:
        InvalidSetting: A key is unknown, or a value has the wrong type or is out of range. A retry cannot help.
    """
    if unknown_keys := sorted(table.keys() - set(KEYS)):
        raise InvalidSetting(f"[spot]: no key is called {', '.join(unknown_keys)}; the keys are {', '.join(KEYS)}")
    values: dict[str, Any] = {name: _parse_number(name, table[name]) for name in NUMBER_KEYS if name in table}
    if "seed" in table:
        values["seed"] = _parse_seed(table["seed"])
    if "without_capacity" in table:
        values["without_capacity"] = _parse_strings("without_capacity", table["without_capacity"])
    schedules = _parse_list(SCHEDULES_KEY, table.get(SCHEDULES_KEY, []))
    return SpotPolicy(**values, interruptions=[_parse_schedule(entry) for entry in schedules])


def _parse_schedule(entry: object) -> Schedule:
    if not isinstance(entry, Mapping) or set(entry) != {"job", "after_s"} or not isinstance(entry["job"], str):
        raise InvalidSetting(
            f"[[spot.{SCHEDULES_KEY}]]: must have job (a pattern of job names) and after_s (a list of seconds), "
            f"not {entry!r}"
        )
    return Schedule(
        entry["job"], [_parse_number("after_s", seconds) for seconds in _parse_list("after_s", entry["after_s"])]
    )


def _parse_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidSetting(f"[spot]: {name} must be a number, not {value!r}")
    return float(value)


def _parse_seed(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSetting(f"[spot]: seed must be a whole number, not {value!r}")
    return value


def _parse_strings(name: str, value: object) -> list[str]:
    texts = _parse_list(name, value)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidSetting(f"[spot]: {name} must be a list of strings, not {value!r}")
    return texts


def _parse_list(name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidSetting(f"[spot]: {name} must be a list, not {value!r}")
    return value
