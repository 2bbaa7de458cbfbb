"""The step contract: what goes into a step, what comes out, and what is said when it fails.

A step is one module of `pipelines.steps` with one `Spec`, one `Result` and one `run(spec) -> Result`.
Light on purpose (pydantic only): Airflow's operators import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict
from pydantic import ValidationError as PydanticError

from pipelines.errors import LeewayError, SpecError

SCHEMA_VERSION = 1
"""Version of the contract; a Result names it, so that a reader can refuse what it does not know."""


class _Message(BaseModel):
    # Not strict: Jinja and the command line send numbers and dates as strings.
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="null")


RESERVED = frozenset({"spec", "out", "schema", "help"})
"""Options of every step's command line, so no field may have their names."""


class Spec(_Message):
    """The whole request to a step. Refuses unknown keys."""

    argument: ClassVar[str] = ""
    """Field that the command line takes without its option's name, too: `reproduce flights@3`."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """A spec that its command line could not express fails at import."""
        taken = RESERVED & set(cls.model_fields)
        if taken:
            raise TypeError(f"{cls.__name__}: {', '.join(sorted(taken))} are options of every step")

    @classmethod
    def parse(cls, values: dict[str, Any], origin: str) -> Self:
        """The spec made of `values`.

        Args:
            values: field name to value; strings are taken for numbers, dates and JSON where the field asks for them.
            origin: where the values came from, for the message.

        Raises:
            SpecError: a key is unknown, or a value is missing or wrong. All of them are named. A retry cannot help.
        """
        try:
            return cls.model_validate(values)
        except PydanticError as error:
            raise SpecError(f"{origin}: {describe(error.errors())}.", f"Known keys: {_keys(cls)}.") from None

    @classmethod
    def check(cls, values: dict[str, Any], origin: str) -> None:
        """Refuses `values` as `parse` does, but lets fields be missing: others may give them.

        Raises:
            SpecError: a key is unknown or a value is wrong.
        """
        try:
            cls.model_validate(values)
        except PydanticError as error:
            complaints = [one for one in error.errors() if one["type"] != "missing"]
            if complaints:
                raise SpecError(f"{origin}: {describe(complaints)}.", f"Known keys: {_keys(cls)}.") from None


class Result(_Message):
    """What a step did: references and numbers, never data."""

    schema_version: int = SCHEMA_VERSION
    """Version of the contract that this result follows."""


class Changes(_Message):
    """How a partition differs from what it was, in rows."""

    added: int = 0
    """Rows of a key that it did not have."""
    removed: int = 0
    """Rows of a key that it has no longer."""
    changed: int = 0
    """Rows of a key that had another content."""

    def __str__(self) -> str:
        """+ADDED -REMOVED ~CHANGED."""
        return f"+{self.added} -{self.removed} ~{self.changed}"


class Report(_Message):
    """Why a step failed, as written to `--out` in the place of its Result."""

    schema_version: int = SCHEMA_VERSION
    error: str
    """Class of the error."""
    message: str
    """What is wrong."""
    hint: str = ""
    """What to do about it."""
    exit_code: int
    """2: wrong request or data. 75: try again. Anything else: a bug."""

    @classmethod
    def of(cls, error: LeewayError) -> Self:
        """The report of a raised error."""
        return cls(error=type(error).__name__, message=error.message, hint=error.hint, exit_code=error.exit_code)


def describe(complaints: Sequence[Any]) -> str:
    """The first five complaints of pydantic in a line: key, complaint, and the value given."""
    lines = [_complaint(one["type"], ".".join(map(str, one["loc"])), one["msg"], one["input"]) for one in complaints]
    return "; ".join(lines[:5]) + (f"; and {len(lines) - 5} more" if len(lines) > 5 else "")


def _complaint(kind: str, key: str, text: str, given: object) -> str:
    if kind == "extra_forbidden":
        return f"unknown key {key}"
    if kind == "missing":
        return f"{key} is missing"
    return f"{key}: {text[:1].lower()}{text[1:]} (got {repr(given)[:60]})" if key else text


def _keys(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)
