r"""Match Python's regular expressions in DuckDB, whose regular expressions are those of RE2.

RE2 is used where it is known to agree with Python's `re`. Otherwise `re` is called for each value, which is slower: for
patterns that RE2 does not support or interprets differently, and, if the pattern has \w, \d, \b or $, for values that
are not plain text. Plain text is ASCII without line ends.
"""

from __future__ import annotations

import re
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import duckdb

from pipelines.validation.evaluators.rows import Rows, to_literal

# Operations and positions of a pattern that mean the same for RE2 and `re`: always, or only in plain text.
_SAME_OPERATIONS = {
    constants.LITERAL, constants.NOT_LITERAL, constants.ANY, constants.IN, constants.RANGE, constants.NEGATE,
    constants.MAX_REPEAT, constants.MIN_REPEAT, constants.SUBPATTERN, constants.BRANCH, constants.AT,
    constants.CATEGORY,
}  # fmt: skip
_SAME_POSITIONS = {constants.AT_BEGINNING, constants.AT_BEGINNING_STRING, constants.AT_END_STRING}
_SAME_IN_PLAIN_TEXT = {
    constants.AT_END, constants.AT_BOUNDARY, constants.AT_NON_BOUNDARY, constants.CATEGORY_DIGIT,
    constants.CATEGORY_NOT_DIGIT, constants.CATEGORY_WORD, constants.CATEGORY_NOT_WORD,
}  # fmt: skip
# Python's \Z is \z in RE2. Z is part of this escape only after an odd number of backslashes: two are a literal one.
_END_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\Z")


def build_match_sql(rows: Rows, column: str, regex: str) -> str:
    """Return the SQL condition that `regex` matches in the column's value; empty if `regex` is not valid."""
    try:
        parsed_regex = parser.parse(regex)
    except (re.error, OverflowError, RecursionError):
        return ""
    value, re2_regex = rows.build_value_sql(column), _END_ESCAPE.sub(r"\1\\z", regex)
    re2_match, agreement = f"regexp_matches({value}, {to_literal(re2_regex)})", _compare_with_re2(parsed_regex)
    if agreement == "never" or not _can_compile(rows.connection, re2_regex):
        return _build_python_match_sql(rows, regex, value)
    if agreement == "always":
        return re2_match
    plain_text_sql = f"strlen({value}) = length({value}) AND NOT contains({value}, chr(10))"
    return f"(CASE WHEN {plain_text_sql} THEN {re2_match} ELSE {_build_python_match_sql(rows, regex, value)} END)"


def _compare_with_re2(parsed_regex: Any) -> str:
    """Return when RE2 agrees with Python: `always`, `in plain text` (ASCII without line ends), or `never`."""
    if parsed_regex.state.flags & ~(re.UNICODE | re.DOTALL):
        return "never"
    operations = set(_list_operations(parsed_regex))
    if not {node[0] for node in operations} <= _SAME_OPERATIONS:
        return "never"
    positions = {node[1] for node in operations if node[0] in (constants.AT, constants.CATEGORY)}
    if not positions <= _SAME_POSITIONS | _SAME_IN_PLAIN_TEXT:
        return "never"
    return "in plain text" if positions & _SAME_IN_PLAIN_TEXT else "always"


def _list_operations(tree: Any) -> list[tuple[Any, Any]]:
    """List every operation of a parsed pattern, with its argument if that is a constant of `re`; else with None."""
    operations: list[tuple[Any, Any]] = []
    for node in tree:
        if isinstance(node, tuple) and node and isinstance(node[0], type(constants.LITERAL)):
            argument = node[1] if isinstance(node[1], type(constants.LITERAL)) else None
            operations.append((node[0], argument))
            operations += _list_operations(node[1]) if isinstance(node[1], (list, tuple, parser.SubPattern)) else []
        elif isinstance(node, (list, tuple, parser.SubPattern)):
            operations += _list_operations(node)
    return operations


def _can_compile(connection: duckdb.DuckDBPyConnection, regex: str) -> bool:
    try:
        connection.execute(f"SELECT regexp_matches('', {to_literal(regex)})").fetchall()
    except duckdb.Error:
        return False
    return True


def _build_python_match_sql(rows: Rows, regex: str, value: str) -> str:
    """Build the SQL condition that Python's `re` finds the pattern in the value."""
    name, pattern = rows.make_table_name(), re.compile(regex)

    def is_match(text: str) -> bool:
        return pattern.search(text) is not None

    rows.connection.create_function(name, is_match, ["VARCHAR"], "BOOLEAN")
    return f"coalesce({name}({value}), FALSE)"
