"""Normalize the texts of category values, so that they depend neither on the engine nor on the width of the type."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

Normalize = Callable[[str], str | None]
"""Takes the text that an engine wrote for a value. Returns a text that is the same for all engines; None for a missing
value."""


def select_normalizer(family: str) -> Normalize:
    """Select the function that normalizes the texts of values of a type family (see `reference.Family`).

    Of the family `other`, only dates and times can be categories.
    """
    return {"number": _normalize_number, "other": _normalize_time}.get(family, _keep_text)


def _keep_text(text: str) -> str | None:
    return text


def _normalize_number(text: str) -> str | None:
    """Write 3, 3.0 and 3.00 alike, and 1e20 (Arrow, DuckDB) like 1.0E20 (Spark); NaN is missing."""
    number = Decimal(text)
    if number.is_nan():
        return None
    is_integer = number.is_finite() and number == number.to_integral_value()
    return str(int(number)) if is_integer else str(float(number))


def _normalize_time(text: str) -> str | None:
    """Write times alike: Arrow writes 00:00:00.000000Z, DuckDB 00:00:00+00, Spark 00:00:00. Dates need no change."""
    text_without_zone = text.removesuffix("Z").removesuffix("+00")
    return text_without_zone.rstrip("0").rstrip(".") if "." in text_without_zone else text_without_zone
