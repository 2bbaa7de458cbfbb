"""Read suites of expectations, in the JSON of Great Expectations, from expectations/."""

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
    """A suite of expectations, in the order of the file."""

    name: str
    expectations: Sequence[Expectation]
    digest: str
    """SHA-256 of the expectations, in hex. Suites with equal expectations have equal digests."""


def load_suite(folder: Path, name: str) -> Suite:
    """Load the suite `folder`/NAME.json.

    Raises:
        DataError: the file does not exist or is not a suite, or an expectation is not valid. A retry cannot help.
    """
    path = folder / f"{name}.json"
    hint = f"`python -m pipelines expectations suggest --table {name}` drafts a suite"
    return parse_suite(name, read_json(path, hint), path.name)


def parse_suite(name: str, value: Any, origin: str) -> Suite:
    """Parse a suite from a JSON value.

    Args:
        name: name of the suite.
        value: JSON value of the suite.
        origin: file or table that has the value, for the error message.

    Raises:
        DataError: the value is not a suite, or an expectation is not valid. A retry cannot help.
    """
    if not isinstance(value, dict) or not isinstance(value.get("expectations"), list):
        raise DataError(f"{origin} is not a suite of Great Expectations: it has no list of expectations.")
    if not value["expectations"]:
        raise DataError(f"{origin} has no expectations.", "Add one: an empty suite would pass all data.")
    expectations = [
        _parse_expectation(item, f"{origin}, expectation {number}")
        for number, item in enumerate(value["expectations"], 1)
    ]
    _require_known_expectations(expectations, origin)
    text = json.dumps([expectation.model_dump(mode="json") for expectation in expectations], sort_keys=True)
    return Suite(name, expectations, hashlib.sha256(text.encode()).hexdigest())


def _parse_expectation(value: Any, origin: str) -> Expectation:
    try:
        return Expectation.model_validate(value)
    except ValidationError as error:
        raise DataError(f"{origin}: {describe_errors(error.errors())}.") from None


def _require_known_expectations(expectations: Sequence[Expectation], origin: str) -> None:
    """Raise a DataError if neither this package nor Great Expectations accepts an expectation's type and kwargs."""
    for number, expectation in enumerate(expectations, 1):
        try:
            is_known = expectation.parse_arguments() is not None
        except DataError as error:
            raise DataError(f"{origin}, expectation {number}: {error.message}") from None
        if not is_known:
            from pipelines.validation.suites import gx_engine

            gx_engine.require_valid(expectation, f"{origin}, expectation {number}")
