"""A category's value as one text, whichever of Arrow, DuckDB and Spark wrote it, and however wide its type was."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

Plain = Callable[[str], str | None]


def plain(family: str) -> Plain:
    """What makes the text of a value of that family; None is no value."""
    return {"number": _number, "other": _moment}.get(family, _same)


def _same(value: str) -> str | None:
    return value


def _number(value: str) -> str | None:
    """3 is 3.0 and 3.00, 1e20 (Arrow, DuckDB) is 1.0E20 (Spark); NaN is none."""
    number = Decimal(value)
    if number.is_nan():
        return None
    whole = number.is_finite() and number == number.to_integral_value()
    return str(int(number)) if whole else str(float(number))


def _moment(value: str) -> str | None:
    """Arrow writes 00:00:00.000000Z, DuckDB 00:00:00+00, Spark 00:00:00. Dates are the same everywhere."""
    bare = value.removesuffix("Z").removesuffix("+00")
    return bare.rstrip("0").rstrip(".") if "." in bare else bare
