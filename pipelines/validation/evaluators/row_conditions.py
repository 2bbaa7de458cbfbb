"""Parse row conditions. Translate them to SQL if the SQL selects the same rows as Great Expectations.

Great Expectations has two forms of conditions: strings, which pandas reads, and Condition objects, which are mappings
in JSON. Only mappings are parsed here. A condition is translated only if it means the same in SQL and in pandas,
whatever values the column has.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pipelines.validation.evaluators.rows import Rows, list_literals, to_exact_literal

Value = int | float | str
_OPERATORS = {"==": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ColumnName(_Model):
    """The column of a condition."""

    name: str


class Nullity(_Model):
    """The condition that a value is missing, or that it is not."""

    type: Literal["nullity"]
    column: ColumnName
    is_null: bool


class Comparison(_Model):
    """The condition that the comparison of a value with a constant is true."""

    type: Literal["comparison"]
    column: ColumnName
    operator: Literal["==", "!=", "<", "<=", ">", ">="]
    parameter: Value


class Membership(_Model):
    """The condition that a value is in a list of constants, or that it is not."""

    type: Literal["comparison"]
    column: ColumnName
    operator: Literal["IN", "NOT_IN"]
    parameter: list[Value] = Field(min_length=1)


SimpleCondition = Nullity | Comparison | Membership


class AllOf(_Model):
    """The condition that all conditions are met."""

    type: Literal["and"]
    conditions: list[SimpleCondition] = Field(min_length=1, max_length=100)


class AnyOf(_Model):
    """The condition that at least one condition is met."""

    type: Literal["or"]
    conditions: list[SimpleCondition | AllOf] = Field(min_length=1, max_length=100)


RowCondition = SimpleCondition | AllOf | AnyOf
_ADAPTER: TypeAdapter[RowCondition] = TypeAdapter(RowCondition)


def parse_condition(value: Any) -> RowCondition | None:
    """Parse a `row_condition` of a suite; return None if there is none, or if only Great Expectations can read it."""
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError:
        return None


def build_condition_sql(rows: Rows, condition: RowCondition | None) -> str | None:
    """Return the SQL of a condition; empty without a condition, None if only Great Expectations can judge it.

    `parse_condition` also returns None for a condition that it cannot read. Do not pass this None: here, None means
    that there is no condition, so all rows are selected.
    """
    if condition is None:
        return ""
    if isinstance(condition, AllOf | AnyOf):
        parts = [build_condition_sql(rows, part) for part in condition.conditions]
        separator = " AND " if isinstance(condition, AllOf) else " OR "
        return None if None in parts else f"({separator.join(filter(None, parts))})"
    if condition.column.name not in rows.schema.names:
        return None
    if isinstance(condition, Nullity):
        return f"({rows.build_value_sql(condition.column.name)} IS {'' if condition.is_null else 'NOT '}NULL)"
    return _build_comparison_sql(rows, condition)


def _build_comparison_sql(rows: Rows, condition: Comparison | Membership) -> str | None:
    """Return the SQL of a comparison. A missing value meets only `!=` and NOT_IN, as in pandas."""
    column, parameter = condition.column.name, condition.parameter
    types: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "text": (str,)}
    column_types = types.get(rows.get_kind(column), ())
    constants = parameter if isinstance(parameter, list) else [parameter]
    if not all(isinstance(constant, column_types) and not isinstance(constant, bool) for constant in constants):
        return None
    value = rows.build_value_sql(column)
    if condition.operator in ("IN", "NOT_IN"):
        sql = f"coalesce({value} IN ({list_literals(constants)}), FALSE)"
        return sql if condition.operator == "IN" else f"(NOT {sql})"
    if condition.operator == "!=":
        # For pandas, a missing integer is NaN or NA, depending on the other values; NA meets no comparison.
        is_int = rows.get_kind(column) == "int"
        return None if is_int else f"({value} IS DISTINCT FROM {to_exact_literal(parameter)})"
    return f"coalesce({value} {_OPERATORS[condition.operator]} {to_exact_literal(parameter)}, FALSE)"
