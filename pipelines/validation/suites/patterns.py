r"""Match Python's regular expressions in DuckDB, which has RE2's.

RE2 is used where both are known to agree. Elsewhere Python's `re` matches value by value: for patterns that
RE2 lacks or interprets differently, and for text beyond ASCII or with line ends where the pattern has \w, \d, \b or $.
"""

from __future__ import annotations

import re
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import duckdb

from pipelines.validation.suites.rows import Rows, to_literal

_SAME = {
    names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN, names.RANGE, names.NEGATE, names.MAX_REPEAT,
    names.MIN_REPEAT, names.SUBPATTERN, names.BRANCH, names.AT, names.CATEGORY,
}  # fmt: skip
_SAME_PLACES = {names.AT_BEGINNING, names.AT_BEGINNING_STRING, names.AT_END_STRING}
_IN_PLAIN_TEXT = {
    names.AT_END, names.AT_BOUNDARY, names.AT_NON_BOUNDARY, names.CATEGORY_DIGIT, names.CATEGORY_NOT_DIGIT,
    names.CATEGORY_WORD, names.CATEGORY_NOT_WORD,
}  # fmt: skip
_END = re.compile(r"(?<!\\)((?:\\\\)*)\\Z")


def build_match_sql(rows: Rows, column: str, regex: str) -> str:
    """Return SQL that is true where `regex` matches in the column's value; empty where `regex` is not valid."""
    try:
        parsed = parser.parse(regex)
    except (re.error, OverflowError, RecursionError):
        return ""
    value, re2_regex = rows.value(column), _END.sub(r"\1\\z", regex)
    re2_match, agreement = f"regexp_matches({value}, {to_literal(re2_regex)})", _compare_with_re2(parsed)
    if agreement == "never" or not _can_compile(rows.connection, re2_regex):
        return _build_python_match(rows, regex, value)
    if agreement == "always":
        return re2_match
    is_plain = f"strlen({value}) = length({value}) AND NOT contains({value}, chr(10))"
    return f"(CASE WHEN {is_plain} THEN {re2_match} ELSE {_build_python_match(rows, regex, value)} END)"


def _compare_with_re2(parsed: Any) -> str:
    """Return where RE2 agrees with Python: always, in plain text, or never."""
    if parsed.state.flags & ~(re.UNICODE | re.DOTALL):
        return "never"
    operations = set(_list_operations(parsed))
    if not {node[0] for node in operations} <= _SAME:
        return "never"
    places = {node[1] for node in operations if node[0] in (names.AT, names.CATEGORY)}
    if not places <= _SAME_PLACES | _IN_PLAIN_TEXT:
        return "never"
    return "in plain text" if places & _IN_PLAIN_TEXT else "always"


def _list_operations(tree: Any) -> list[tuple[Any, Any]]:
    """List every operation of a parsed pattern, with its argument where that is a name."""
    operations: list[tuple[Any, Any]] = []
    for node in tree:
        if isinstance(node, tuple) and node and isinstance(node[0], type(names.LITERAL)):
            argument = node[1] if isinstance(node[1], type(names.LITERAL)) else None
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


def _build_python_match(rows: Rows, regex: str, value: str) -> str:
    """Build SQL that calls Python's `re`."""
    name, compiled = rows.make_table_name(), re.compile(regex)

    def matches(text: str) -> bool:
        return compiled.search(text) is not None

    rows.connection.create_function(name, matches, ["VARCHAR"], "BOOLEAN")
    return f"coalesce({name}({value}), FALSE)"
