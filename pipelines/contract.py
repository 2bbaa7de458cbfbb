"""Define the step contract: a step's input (Spec), its output (Result), and its output after a failure (Report).

A step is one module of `pipelines.steps` with one `Spec`, one `Result` and one `run(spec) -> Result`.
This module needs only pydantic, because Airflow's operators import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic import ValidationError as PydanticError
from pydantic_core import PydanticCustomError

from pipelines.errors import LeewayError, SpecError
from pipelines.parameters import Parameters

SCHEMA_VERSION = 1
"""Version of the contract. Every Result and Report has it, so a reader can refuse an unknown version."""
MAX_PROBLEMS = 5
"""Largest number of problems that one error message names."""
MAX_VALUE_CHARS = 60
"""Largest number of characters of a wrong value that an error message shows."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="null")


DEPENDS_ON_OTHER_FIELDS = "depends_on_other_fields"
"""Type of a validation error that depends on other fields: a field has no effect, or values do not fit together."""
RESERVED_OPTIONS = frozenset({"spec", "out", "schema", "help"})
"""Options that every step's command line has; no field may have one of these names."""


class Spec(Parameters):
    """The input of a step. Unknown keys are refused."""

    argument: ClassVar[str] = ""
    """Field that the command line also accepts as a positional argument: `reproduce flights@3`."""
    prerequisites: ClassVar[Mapping[str, str]] = {}
    """Maps a field to the other field that it needs to have an effect. A spec that gives the former without the latter
    is refused."""
    model_field: ClassVar[str] = "model"
    """Name of the field that holds the name of the model, whose models/NAME/params.yaml has parameters of the step. A
    spec need not have such a field."""
    replaced_fields: ClassVar[Mapping[str, str]] = {}
    """Maps a field to the other field that it replaces. A spec that gives both is refused."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Refuse, at import, a spec with a field that the command line cannot express."""
        reserved_fields = RESERVED_OPTIONS & set(cls.model_fields)
        if reserved_fields:
            raise TypeError(f"{cls.__name__}: {', '.join(sorted(reserved_fields))} are options of every step")

    @model_validator(mode="after")
    def _refuse_fields_without_effect(self) -> Self:
        for field, other_field in self.prerequisites.items():
            if self._is_given(field) and not self._is_given(other_field):
                raise PydanticCustomError(DEPENDS_ON_OTHER_FIELDS, f"{field} has no effect without {other_field}")
        for field, other_field in self.replaced_fields.items():
            if self._is_given(field) and self._is_given(other_field):
                raise PydanticCustomError(DEPENDS_ON_OTHER_FIELDS, f"{other_field} has no effect beside {field}")
        return self

    def _is_given(self, field: str) -> bool:
        """Return whether the field has another value than its default."""
        return bool(getattr(self, field) != type(self).model_fields[field].get_default(call_default_factory=True))

    @classmethod
    def parse(cls, values: dict[str, Any], origin: str) -> Self:
        """Create a spec from `values`.

        Args:
            values: maps field names to values; strings are converted to numbers and dates if a field needs them.
            origin: where the values come from, for the error message.

        Raises:
            SpecError: a key is unknown, or a value is missing or wrong. The message names the first five problems. A
                retry cannot help.
        """
        try:
            return cls.model_validate(values)
        except PydanticError as error:
            raise SpecError(
                f"{origin}: {describe_errors(error.errors(), values)}.", f"Known keys: {_list_keys(cls)}."
            ) from None

    @classmethod
    def check(cls, values: dict[str, Any], origin: str) -> None:
        """Check values that are only a part of a spec, such as a section of params.yaml.

        The other fields may come from elsewhere. So a missing field is not an error, nor is a field that has no effect
        without or beside another field.

        Args:
            values: as for `parse`.
            origin: as for `parse`.

        Raises:
            SpecError: a key is unknown or a value is wrong. A retry cannot help.
        """
        try:
            cls.model_validate(values)
        except PydanticError as error:
            problems = [
                problem for problem in error.errors() if problem["type"] not in ("missing", DEPENDS_ON_OTHER_FIELDS)
            ]
            if problems:
                raise SpecError(
                    f"{origin}: {describe_errors(problems, values)}.", f"Known keys: {_list_keys(cls)}."
                ) from None


class Result(_Message):
    """The output of a step: references and numbers, never data."""

    schema_version: int = SCHEMA_VERSION
    """Version of the step contract that this result follows."""


class Changes(_Message):
    """The numbers of rows that a write added to a partition, removed from it, or changed."""

    added: int = 0
    """Rows whose key is new."""
    removed: int = 0
    """Rows whose key does not exist any more."""
    changed: int = 0
    """Rows with the same key and other content."""

    def __str__(self) -> str:
        """Format as +ADDED -REMOVED ~CHANGED."""
        return f"+{self.added} -{self.removed} ~{self.changed}"


class Report(_Message):
    """The error of a step that failed; written to `--out` instead of a Result."""

    schema_version: int = SCHEMA_VERSION
    error: str
    """Class of the error."""
    message: str
    """What is wrong."""
    hint: str = ""
    """What to do about it."""
    exit_code: int
    """2: the request or the data is wrong. 75: try again. Anything else: a bug."""

    @classmethod
    def from_error(cls, error: LeewayError) -> Self:
        """Create the report of a raised error."""
        return cls(error=type(error).__name__, message=error.message, hint=error.hint, exit_code=error.exit_code)


def describe_errors(errors: Sequence[Any], values: Any = None) -> str:
    """Describe the first five errors of pydantic on one line: key, problem, and the value that was given.

    Unknown keys come first: one of them may be a missing key that was mistyped.

    Args:
        errors: the errors, as pydantic lists them.
        values: the values that were validated. If they are given, the message does not show the names of types that
            pydantic adds to the path of a key whose value can have one of several types.
    """
    problems = [
        _describe_problem(error["type"], ".".join(_list_keys_of_error(error, values)), error["msg"], error["input"])
        for error in sorted(errors, key=lambda error: error["type"] != "extra_forbidden")
    ]
    omitted_count = len(problems) - MAX_PROBLEMS
    return "; ".join(problems[:MAX_PROBLEMS]) + (f"; and {omitted_count} more" if omitted_count > 0 else "")


def _list_keys_of_error(error: Any, values: Any) -> list[str]:
    """Return the keys that lead to the value of an error, without pydantic's names of types."""
    *path, missing_key = error["loc"] or ("",)
    if error["type"] != "missing":  # every key of the path is in the values
        path, missing_key = [*path, missing_key], ""
    keys, value = list[str](), values
    for part in path:
        if isinstance(value, str | int | float) or (value is None and values is not None):
            continue  # such a value has no keys
        if isinstance(value, Mapping):
            known_keys = [key for key in value if str(key) == str(part)]
            keys += map(str, known_keys)
            value = value[known_keys[0]] if known_keys else value
        elif isinstance(value, list | tuple) and isinstance(part, int):
            keys.append(str(part))
            value = value[part]
        elif not isinstance(value, list | tuple):  # no values were given, or the keys of the object are not known
            keys.append(str(part))
    return [key for key in (*keys, str(missing_key)) if key]


def _describe_problem(kind: str, key: str, text: str, value: object) -> str:
    if kind == "extra_forbidden":
        return f"unknown key {key}"
    if kind == "missing":
        return f"{key} is missing"
    text = text.removeprefix("Value error, ")  # prefix by pydantic for errors of our validators
    return f"{key}: {text[:1].lower()}{text[1:]} (got {repr(value)[:MAX_VALUE_CHARS]})" if key else text


def _list_keys(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)
