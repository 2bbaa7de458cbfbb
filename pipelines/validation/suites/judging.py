"""Judge a partition by a suite: most expectations by a few queries of DuckDB, the others by Great Expectations.

With the engine `gx`, Great Expectations judges every expectation that it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.errors import DataError
from pipelines.validation.evaluators import arguments
from pipelines.validation.evaluators.checks import Check, NeedsGxError, RowCheck
from pipelines.validation.evaluators.duckdb_expectations import ADDED_EXPECTATIONS, DUCKDB_EXPECTATIONS
from pipelines.validation.evaluators.row_conditions import build_condition_sql
from pipelines.validation.evaluators.rows import Rows
from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.results import EngineName, ExpectationResult, Judgement
from pipelines.validation.suites.suite import Suite


class _Evaluator:
    """The check of one expectation, with the rows to judge."""

    def __init__(self, expectation: Expectation, check: Check, rows: Rows, condition_sql: str) -> None:
        self.expectation, self.check, self.rows, self.condition_sql = expectation, check, rows, condition_sql

    def evaluate(self, aggregates: dict[str, Any]) -> ExpectationResult | None:
        """Evaluate the check; return None if only Great Expectations can evaluate it.

        Args:
            aggregates: value of each aggregate, by the aggregate's SQL.
        """
        values = [aggregates[sql] for sql in self.check.aggregates]
        try:
            success, result = self.check.evaluate(self.rows, values)
        except NeedsGxError:
            return None
        unexpected_sql = self.check.unexpected_sql if isinstance(self.check, RowCheck) and not success else ""
        if unexpected_sql and self.condition_sql:
            unexpected_sql = f"({self.condition_sql} AND {unexpected_sql})"
        return ExpectationResult(self.expectation, success, result, unexpected_sql=unexpected_sql)


def judge(suite: Suite, rows: Rows, engine: EngineName = "duckdb") -> Judgement:
    """Evaluate every expectation of the suite on `rows`, in the suite's order.

    Args:
        suite: suite of expectations.
        rows: rows of the partition. `rows.count` is set to their number.
        engine: `duckdb`: Leeway's SQL judges all that it can, and Great Expectations judges the others. `gx`: Great
            Expectations judges everything except Leeway's own expectations, which it does not know.
    """
    conditional_rows = {"": rows}
    evaluators_or_results = [
        _make_evaluator(expectation, conditional_rows)
        if engine == "duckdb" or expectation.type in ADDED_EXPECTATIONS
        else None
        for expectation in suite.expectations
    ]
    results = [item if isinstance(item, ExpectationResult) else None for item in evaluators_or_results]
    for selected_rows in conditional_rows.values():
        _evaluate_in_one_pass(selected_rows, evaluators_or_results, results)
    gx_indexes = [index for index, result in enumerate(results) if result is None]
    gx_results = _evaluate_with_gx(rows, [suite.expectations[index] for index in gx_indexes])
    for index, gx_result in zip(gx_indexes, gx_results, strict=True):
        results[index] = gx_result
    return Judgement(suite, [result for result in results if result is not None], engine)


def _make_evaluator(
    expectation: Expectation, conditional_rows: dict[str, Rows]
) -> _Evaluator | ExpectationResult | None:
    """Make the evaluator of an expectation.

    Args:
        expectation: expectation to evaluate.
        conditional_rows: rows that meet each row condition, by the SQL of the condition; "" has all rows. The rows of
            this expectation's condition are added if they are not there yet.

    Returns:
        The evaluator; a failed result if no check can be made; None if Great Expectations evaluates the expectation.
    """
    args, rows = expectation.parse_arguments(), conditional_rows[""]
    if args is None:
        return None
    missing_columns = [column for column in _list_columns(args) if column not in rows.schema.names]
    if missing_columns:
        return _fail_without_evaluation(expectation, f"there is no column {', '.join(missing_columns)}.")
    condition_sql = build_condition_sql(rows, expectation.parse_condition())
    if condition_sql is None:
        return None
    if condition_sql not in conditional_rows:
        conditional_rows[condition_sql] = rows.select(condition_sql)
    selected_rows = conditional_rows[condition_sql]
    try:
        check = DUCKDB_EXPECTATIONS[expectation.type][1](args, selected_rows)
    except DataError as error:  # another table that the check needs does not exist
        return _fail_without_evaluation(expectation, error.message)
    return _Evaluator(expectation, check, selected_rows, condition_sql) if check else None


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
    return ExpectationResult(expectation, success=False, result={}, exception_info=info)


def _evaluate_in_one_pass(
    rows: Rows,
    evaluators_or_results: Sequence[_Evaluator | ExpectationResult | None],
    results: list[ExpectationResult | None],
) -> None:
    """Evaluate the checks of these rows with one query for all aggregates; write their results to `results`."""
    evaluators = {
        index: item
        for index, item in enumerate(evaluators_or_results)
        if isinstance(item, _Evaluator) and item.rows is rows
    }
    aggregates = list(dict.fromkeys(sql for evaluator in evaluators.values() for sql in evaluator.check.aggregates))
    values = rows.query(", ".join(["count(*)", *aggregates]))[0]
    rows.count = values[0]
    for index, evaluator in evaluators.items():
        results[index] = evaluator.evaluate(dict(zip(aggregates, values[1:], strict=True)))


def _evaluate_with_gx(rows: Rows, expectations: Sequence[Expectation]) -> list[ExpectationResult]:
    if not expectations:
        return []
    from pipelines.validation.suites import gx_engine

    gx_results = gx_engine.evaluate_expectations(rows, expectations)
    return [
        ExpectationResult(
            expectation,
            gx_result.success,
            gx_result.result,
            gx_result.exception_info,
            unexpected_sql="" if gx_result.success else gx_result.unexpected_sql,
            engine="gx",
        )
        for expectation, gx_result in zip(expectations, gx_results, strict=True)
    ]
