"""Suites: Great Expectations' own JSON, read from expectations/."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pipelines.contract import describe_errors
from pipelines.errors import DataError
from pipelines.system.files import read_json
from pipelines.validation.suites.arguments import Arguments
from pipelines.validation.suites.known import KNOWN, OWN

Severity = Literal["critical", "warning", "info"]


class Expectation(BaseModel):
    """One expectation, as the suite has it."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    type: str
    kwargs: dict[str, Any]
    severity: Severity = "critical"
    meta: dict[str, Any] | None = None
    id: str | None = None
    notes: str | list[str] | None = None
    description: str | None = None
    rendered_content: Any = None

    @property
    def column(self) -> str:
        """The column or columns that it is about; empty where it is the table."""
        one = [self.kwargs[name] for name in ("column", "column_A", "column_B") if name in self.kwargs]
        several = self.kwargs.get("column_list") or self.kwargs.get("columns") or []
        return ", ".join(map(str, [*one, *several] if isinstance(several, list) else one))

    def arguments(self) -> Arguments | None:
        """The kwargs, where we evaluate such an expectation ourselves; else it is Great Expectations' to judge."""
        if self.type not in KNOWN:
            return None
        try:
            return KNOWN[self.type][0].model_validate(self.kwargs)
        except ValidationError as error:
            if self.type in OWN:
                raise DataError(f"{self.type}: {describe_errors(error.errors())}.") from None
            return None


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
