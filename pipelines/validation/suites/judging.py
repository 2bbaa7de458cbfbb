"""Judge a partition by a suite: known expectations in a few queries of DuckDB, all others by Great Expectations."""

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
_NO_ERROR = {"raised_exception": False, "exception_traceback": None, "exception_message": None}


@dataclass(frozen=True)
class Verdict:
    """The result of one expectation."""

    expectation: Expectation
    success: bool
    result: dict[str, Any]
    exception_info: dict[str, Any] = field(default_factory=_NO_ERROR.copy)
    wrong: str = ""
    """SQL over `r`, true where a row is wrong; empty where the failure is not about single rows."""

    def record(self) -> dict[str, Any]:
        """Return the result as Great Expectations writes it."""
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
            wrong, rows = self.result["unexpected_count"], self.result.get("element_count") or 0
            share = f" ({100 * wrong / rows:.3g} %)" if wrong and rows else ""
            return f"{wrong:,} of {rows:,} rows{share}"
        value = self.result.get("observed_value")
        return "" if value is None else str(value)

    @property
    def examples(self) -> list[str]:
        """The first unexpected values."""
        values = self.result.get("partial_unexpected_list") or self.result.get("partial_missing_list") or []
        return [str(value)[:80] for value in values[:MAX_EXAMPLES]]

    @property
    def error(self) -> str:
        """Why the expectation could not be evaluated; empty where it was."""
        # Great Expectations writes one exception, or a mapping of metric to exception.
        info = self.exception_info
        each = [info] if "raised_exception" in info else [value for value in info.values() if isinstance(value, dict)]
        return "; ".join(dict.fromkeys(filter(None, (exception.get("exception_message") for exception in each))))


@dataclass(frozen=True)
class Judgement:
    """The results of all expectations of a suite on one partition."""

    suite: Suite
    verdicts: Sequence[Verdict]

    @property
    def evaluated(self) -> int:
        """Number of expectations that were evaluated."""
        return len(self.verdicts)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Summaries of the failed expectations."""
        return [verdict.summarize() for verdict in self.verdicts if not verdict.success]

    def list_failures(self, *severities: str) -> list[dict[str, Any]]:
        """Return the summaries of the failed expectations of these severities."""
        return [failure for failure in self.failures if failure["severity"] in severities]

    @property
    def to_quarantine(self) -> list[Verdict]:
        """The failed expectations of severity `warning` that say which rows are wrong."""
        failed = [verdict for verdict in self.verdicts if not verdict.success and verdict.wrong]
        return [verdict for verdict in failed if verdict.expectation.severity == "warning"]

    @property
    def evidence(self) -> dict[str, Any]:
        """The complete result, in the JSON of Great Expectations."""
        successful = sum(verdict.success for verdict in self.verdicts)
        return {
            "success": successful == self.evaluated,
            "suite_name": self.suite.name,
            "suite_parameters": {},
            "statistics": {
                "evaluated_expectations": self.evaluated,
                "successful_expectations": successful,
                "unsuccessful_expectations": self.evaluated - successful,
                "success_percent": successful / self.evaluated * 100 if self.evaluated else None,
            },
            "results": [verdict.record() for verdict in self.verdicts],
            "meta": {"suite_digest": self.suite.digest},
            "id": None,
        }


def judge(suite: Suite, rows: Rows) -> Judgement:
    """Evaluate every expectation of the suite on `rows`, in the suite's order."""
    checks = [_make_check(expectation, rows) for expectation in suite.expectations]
    aggregates = _query_aggregates(rows, [check for check in checks if not isinstance(check, Verdict | None)])
    verdicts = [
        check if isinstance(check, Verdict | None) else _evaluate(expectation, check, rows, aggregates)
        for expectation, check in zip(suite.expectations, checks, strict=True)
    ]
    open_places = [place for place, verdict in enumerate(verdicts) if verdict is None]
    gx_verdicts = _evaluate_with_gx(rows, [suite.expectations[place] for place in open_places])
    for place, gx_verdict in zip(open_places, gx_verdicts, strict=True):
        verdicts[place] = gx_verdict
    return Judgement(suite, [verdict for verdict in verdicts if verdict is not None])


def _make_check(expectation: Expectation, rows: Rows) -> Check | Verdict | None:
    """Make the check of an expectation; a failed verdict where that is impossible; None where it is for `by_gx`."""
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
    if isinstance(args, arguments.Existing):
        return ()
    if isinstance(args, arguments.OfColumn):
        return (args.column,)
    if isinstance(args, arguments.Pair):
        return (args.column_A, args.column_B)
    if isinstance(args, arguments.Matched):
        return args.columns
    return args.column_list if isinstance(args, arguments.Several) else ()


def _fail_without_evaluation(expectation: Expectation, why: str) -> Verdict:
    info = {"raised_exception": True, "exception_traceback": None, "exception_message": why}
    return Verdict(expectation, False, {}, info)


def _query_aggregates(rows: Rows, checks: Sequence[Check]) -> dict[str, Any]:
    """Query the aggregates of all checks in one pass: SQL to its value. Sets the number of rows."""
    aggregates = list(dict.fromkeys(sql for check in checks for sql in check.shared))
    values = rows.query(", ".join(["count(*)", *aggregates]))[0]
    rows.count = values[0]
    return dict(zip(aggregates, values[1:], strict=True))


def _evaluate(expectation: Expectation, check: Check, rows: Rows, aggregates: dict[str, Any]) -> Verdict:
    success, result = check.answer(rows, [aggregates[sql] for sql in check.shared])
    wrong = check.unexpected if isinstance(check, RowCheck) and not success else ""
    return Verdict(expectation, success, result, wrong=wrong)


def _evaluate_with_gx(rows: Rows, expectations: Sequence[Expectation]) -> list[Verdict]:
    if not expectations:
        return []
    from pipelines.validation.suites import by_gx

    results = by_gx.judge(rows, expectations)
    return [
        Verdict(
            expectation, result.success, result.result, result.exception_info, "" if result.success else result.wrong
        )
        for expectation, result in zip(expectations, results, strict=True)
    ]
