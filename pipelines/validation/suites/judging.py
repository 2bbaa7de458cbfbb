"""Judge a partition by a suite: most expectations by a few queries of DuckDB, the others by Great Expectations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import DataError
from pipelines.validation.suites import arguments
from pipelines.validation.suites.checks import Check, RowCheck
from pipelines.validation.suites.duckdb_expectations import DUCKDB_EXPECTATIONS
from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.rows import Rows
from pipelines.validation.suites.suite import Suite

MAX_EXAMPLES = 3
"""Largest number of examples in a summary."""
_NO_ERROR = {"raised_exception": False, "exception_traceback": None, "exception_message": None}


@dataclass(frozen=True)
class ExpectationResult:
    """The result of one expectation."""

    expectation: Expectation
    success: bool
    result: dict[str, Any]
    exception_info: dict[str, Any] = field(default_factory=_NO_ERROR.copy)
    unexpected_sql: str = ""
    """SQL condition that a row `r` is unexpected; empty if the expectation holds or is not about single rows."""

    def to_json_values(self) -> dict[str, Any]:
        """Return the result in the JSON format of Great Expectations."""
        expectation = self.expectation
        return {
            "success": self.success,
            "expectation_config": {
                "type": expectation.type,
                "kwargs": expectation.kwargs,
                "meta": expectation.meta or {},
                "severity": expectation.severity,
            },
            "result": self.result,
            "meta": {},
            "exception_info": self.exception_info,
        }

    def summarize(self) -> dict[str, Any]:
        """Summarize the result for logs and step results; bounded in size."""
        return {
            "expectation": self.expectation.type,
            "severity": self.expectation.severity,
            "column": self.expectation.column,
            "observed": self.observed[:120],
            "examples": self.examples,
            "error": self.error[:200],
        }

    @property
    def observed(self) -> str:
        """The observed value, or the number of unexpected rows."""
        if "unexpected_count" in self.result:
            unexpected, rows = self.result["unexpected_count"], self.result.get("element_count") or 0
            share = f" ({100 * unexpected / rows:.3g} %)" if unexpected and rows else ""
            return f"{unexpected:,} of {rows:,} rows{share}"
        value = self.result.get("observed_value")
        return "" if value is None else str(value)

    @property
    def examples(self) -> list[str]:
        """The first unexpected values."""
        values = self.result.get("partial_unexpected_list") or self.result.get("partial_missing_list") or []
        return [str(value)[:80] for value in values[:MAX_EXAMPLES]]

    @property
    def error(self) -> str:
        """Why the expectation could not be evaluated; empty where it was evaluated."""
        # Great Expectations writes one exception, or a mapping of metric to exception.
        info = self.exception_info
        exceptions = (
            [info] if "raised_exception" in info else [item for item in info.values() if isinstance(item, dict)]
        )
        messages = (exception.get("exception_message") for exception in exceptions)
        return "; ".join(dict.fromkeys(filter(None, messages)))


@dataclass(frozen=True)
class Judgement:
    """The results of all expectations of a suite on one partition."""

    suite: Suite
    results: Sequence[ExpectationResult]
    """Results in the order of the suite."""

    @property
    def evaluated_count(self) -> int:
        """Number of expectations that were evaluated."""
        return len(self.results)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Summaries of the failed expectations."""
        return [result.summarize() for result in self.results if not result.success]

    def list_failures(self, *severities: str) -> list[dict[str, Any]]:
        """Return the summaries of the failed expectations of these severities."""
        return [failure for failure in self.failures if failure["severity"] in severities]

    @property
    def rejecting_results(self) -> list[ExpectationResult]:
        """The failed expectations of severity `warning` that are about single rows: they reject these rows."""
        failed = [result for result in self.results if not result.success and result.unexpected_sql]
        return [result for result in failed if result.expectation.severity == "warning"]

    @property
    def evidence(self) -> dict[str, Any]:
        """The complete result, in the JSON of Great Expectations."""
        successful = sum(result.success for result in self.results)
        return {
            "success": successful == self.evaluated_count,
            "suite_name": self.suite.name,
            "suite_parameters": {},
            "statistics": {
                "evaluated_expectations": self.evaluated_count,
                "successful_expectations": successful,
                "unsuccessful_expectations": self.evaluated_count - successful,
                "success_percent": successful / self.evaluated_count * 100 if self.evaluated_count else None,
            },
            "results": [result.to_json_values() for result in self.results],
            "meta": {"suite_digest": self.suite.digest},
            "id": None,
        }


def judge(suite: Suite, rows: Rows) -> Judgement:
    """Evaluate every expectation of the suite on `rows`, in the suite's order."""
    checks = [_make_check(expectation, rows) for expectation in suite.expectations]
    aggregates = _query_aggregates(rows, [check for check in checks if not isinstance(check, ExpectationResult | None)])
    results = [
        check if isinstance(check, ExpectationResult | None) else _evaluate(expectation, check, rows, aggregates)
        for expectation, check in zip(suite.expectations, checks, strict=True)
    ]
    gx_indexes = [index for index, result in enumerate(results) if result is None]
    gx_results = _evaluate_with_gx(rows, [suite.expectations[index] for index in gx_indexes])
    for index, gx_result in zip(gx_indexes, gx_results, strict=True):
        results[index] = gx_result
    return Judgement(suite, [result for result in results if result is not None])


def _make_check(expectation: Expectation, rows: Rows) -> Check | ExpectationResult | None:
    """Make the check of an expectation.

    Returns:
        The check; a failed result where no check can be made; None where Great Expectations evaluates the expectation.
    """
    args = expectation.parse_arguments()
    if args is None:
        return None
    missing = [column for column in _list_columns(args) if column not in rows.schema.names]
    if missing:
        return _fail_without_evaluation(expectation, f"there is no column {', '.join(missing)}.")
    try:
        return DUCKDB_EXPECTATIONS[expectation.type][1](args, rows)
    except DataError as error:  # another table that the check needs does not exist
        return _fail_without_evaluation(expectation, error.message)


def _list_columns(args: arguments.Arguments) -> Sequence[str]:
    """List the columns that must exist before the check can be made."""
    if isinstance(args, arguments.ExistingColumn):
        return ()
    if isinstance(args, arguments.ColumnArguments):
        return (args.column,)
    if isinstance(args, arguments.ColumnPair):
        return (args.column_A, args.column_B)
    if isinstance(args, arguments.MatchInTable):
        return args.columns
    return args.column_list if isinstance(args, arguments.SeveralColumns) else ()


def _fail_without_evaluation(expectation: Expectation, reason: str) -> ExpectationResult:
    info = {"raised_exception": True, "exception_traceback": None, "exception_message": reason}
    return ExpectationResult(expectation, False, {}, info)


def _query_aggregates(rows: Rows, checks: Sequence[Check]) -> dict[str, Any]:
    """Query the aggregates of all checks in one pass, and set `rows.count`; return SQL to its value."""
    aggregates = list(dict.fromkeys(sql for check in checks for sql in check.aggregates))
    values = rows.query(", ".join(["count(*)", *aggregates]))[0]
    rows.count = values[0]
    return dict(zip(aggregates, values[1:], strict=True))


def _evaluate(expectation: Expectation, check: Check, rows: Rows, aggregates: dict[str, Any]) -> ExpectationResult:
    success, result = check.evaluate(rows, [aggregates[sql] for sql in check.aggregates])
    unexpected_sql = check.unexpected_sql if isinstance(check, RowCheck) and not success else ""
    return ExpectationResult(expectation, success, result, unexpected_sql=unexpected_sql)


def _evaluate_with_gx(rows: Rows, expectations: Sequence[Expectation]) -> list[ExpectationResult]:
    if not expectations:
        return []
    from pipelines.validation.suites import by_gx

    gx_results = by_gx.evaluate_expectations(rows, expectations)
    return [
        ExpectationResult(
            expectation,
            gx_result.success,
            gx_result.result,
            gx_result.exception_info,
            "" if gx_result.success else gx_result.unexpected_sql,
        )
        for expectation, gx_result in zip(expectations, gx_results, strict=True)
    ]
