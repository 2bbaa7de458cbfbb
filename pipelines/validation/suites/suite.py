"""Suites: Great Expectations' own JSON, read from expectations/."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.contract import describe_errors
from pipelines.errors import DataError
from pipelines.system.files import read_json
from pipelines.validation.suites.expectation import Expectation


@dataclass(frozen=True)
class Suite:
    """Expectations, in their order."""

    name: str
    expectations: Sequence[Expectation]
    digest: str
    """SHA-256 of what it says, in hex: suites of equal expectations have equal digests."""


def load(folder: Path, name: str) -> Suite:
    """The suite `folder`/NAME.json.

    Raises:
        DataError: no such file, not JSON, not a suite, or one of its expectations is not valid: it is named.
    """
    path = folder / f"{name}.json"
    return parse(name, read_json(path, "a suite of Great Expectations"), path.name)


def parse(name: str, found: Any, origin: str) -> Suite:
    """The suite that some JSON is.

    Args:
        name: of the suite.
        found: the JSON's value.
        origin: where it came from, for the message.

    Raises:
        DataError: it is none, or one of its expectations is not valid.
    """
    if not isinstance(found, dict) or not isinstance(found.get("expectations"), list):
        raise DataError(f"{origin} is not a suite of Great Expectations: it has no list of expectations.")
    if not found["expectations"]:
        raise DataError(f"{origin} has no expectations.", "A suite without any would pass all data.")
    read = [_expectation(one, f"{origin}, expectation {place + 1}") for place, one in enumerate(found["expectations"])]
    _demand_known(read, origin)
    text = json.dumps([one.model_dump(mode="json") for one in read], sort_keys=True)
    return Suite(name, read, hashlib.sha256(text.encode()).hexdigest())


def _expectation(found: Any, origin: str) -> Expectation:
    try:
        return Expectation.model_validate(found)
    except ValidationError as error:
        raise DataError(f"{origin}: {describe_errors(error.errors())}.") from None


def _demand_known(read: Sequence[Expectation], origin: str) -> None:
    """Refuses what neither we nor Great Expectations know: its type, or one of its kwargs."""
    for place, one in enumerate(read):
        try:
            known = one.arguments() is not None
        except DataError as error:
            raise DataError(f"{origin}, expectation {place + 1}: {error.message}") from None
        if not known:
            from pipelines.validation.suites import by_gx

            by_gx.demand(one, f"{origin}, expectation {place + 1}")
