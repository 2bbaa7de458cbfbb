"""Judging a partition by a suite: what is known of it in few passes over its rows, the rest by Great Expectations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import DataError
from pipelines.validation.suites import arguments as given
from pipelines.validation.suites.checks import Check, EachRow
from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.known import KNOWN
from pipelines.validation.suites.rows import Rows
from pipelines.validation.suites.suite import Suite

MAX_EXAMPLES = 3
_NO_ERROR = {"raised_exception": False, "exception_traceback": None, "exception_message": None}


@dataclass(frozen=True)
class Verdict:
    """What came of one expectation."""

    expectation: Expectation
    success: bool
    result: dict[str, Any]
    exception_info: dict[str, Any] = field(default_factory=_NO_ERROR.copy)
    wrong: str = ""
    """SQL over `r`, true where a row is wrong; empty where it failed as a whole."""

    def record(self) -> dict[str, Any]:
        """As Great Expectations writes it."""
        one = self.expectation
        return {
            "success": self.success,
            "expectation_config": {
                "type": one.type,
                "kwargs": one.kwargs,
                "meta": one.meta or {},
                "severity": one.severity,
            },
            "result": self.result,
            "meta": {},
            "exception_info": self.exception_info,
        }

    def summary(self) -> dict[str, Any]:
        """Bounded: for logs and results."""
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
        """What was seen: the value, or how many rows are unexpected."""
        if "unexpected_count" in self.result:
            wrong, rows = self.result["unexpected_count"], self.result.get("element_count") or 0
            share = f" ({100 * wrong / rows:.3g} %)" if wrong and rows else ""
            return f"{wrong:,} of {rows:,} rows{share}"
        seen = self.result.get("observed_value")
        return "" if seen is None else str(seen)

    @property
    def examples(self) -> list[str]:
        """A few unexpected values."""
        found = self.result.get("partial_unexpected_list") or self.result.get("partial_missing_list") or []
        return [str(value)[:80] for value in found[:MAX_EXAMPLES]]

    @property
    def error(self) -> str:
        """Why it could not be judged; empty where it was."""
        # Great Expectations gives one exception, or a mapping of metric to exception.
        info = self.exception_info
        every = [info] if "raised_exception" in info else [one for one in info.values() if isinstance(one, dict)]
        return "; ".join(dict.fromkeys(filter(None, (one.get("exception_message") for one in every))))


@dataclass(frozen=True)
class Judgement:
    """How a partition fared."""

    suite: Suite
    verdicts: Sequence[Verdict]

    @property
    def evaluated(self) -> int:
        """Number of expectations."""
        return len(self.verdicts)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The failed expectations, each in short."""
        return [one.summary() for one in self.verdicts if not one.success]

    def of(self, *severities: str) -> list[dict[str, Any]]:
        """The failures of some severities, in short."""
        return [one for one in self.failures if one["severity"] in severities]

    @property
    def to_quarantine(self) -> list[Verdict]:
        """The failed warnings that tell which rows are wrong."""
        failed = (one for one in self.verdicts if not one.success and one.expectation.severity == "warning")
        return [one for one in failed if one.wrong]

    @property
    def evidence(self) -> dict[str, Any]:
        """The whole result, in the JSON of Great Expectations."""
        good = sum(one.success for one in self.verdicts)
        return {
            "success": good == self.evaluated,
            "suite_name": self.suite.name,
            "suite_parameters": {},
            "statistics": {
                "evaluated_expectations": self.evaluated,
                "successful_expectations": good,
                "unsuccessful_expectations": self.evaluated - good,
                "success_percent": good / self.evaluated * 100 if self.evaluated else None,
            },
            "results": [one.record() for one in self.verdicts],
            "meta": {"suite_digest": self.suite.digest},
            "id": None,
        }


def judge(suite: Suite, rows: Rows) -> Judgement:
    """Every expectation of the suite, evaluated on `rows`, in the suite's order."""
    checks = [_check(one, rows) for one in suite.expectations]
    told = _shared(rows, [one for one in checks if not isinstance(one, Verdict | None)])
    verdicts = [
        one if isinstance(one, Verdict | None) else _verdict(expectation, one, rows, told)
        for expectation, one in zip(suite.expectations, checks, strict=True)
    ]
    left = [place for place, one in enumerate(verdicts) if one is None]
    for place, one in zip(left, _by_gx(rows, [suite.expectations[place] for place in left]), strict=True):
        verdicts[place] = one
    return Judgement(suite, [one for one in verdicts if one is not None])


def _check(expectation: Expectation, rows: Rows) -> Check | Verdict | None:
    """Its check, or why there can be none; none where it is Great Expectations' to judge."""
    args = expectation.arguments()
    if args is None:
        return None
    missing = [one for one in _columns(args) if one not in rows.schema.names]
    if missing:
        return _cannot(expectation, f"there is no column {', '.join(missing)}.")
    try:
        return KNOWN[expectation.type][1](args, rows)
    except DataError as error:  # another table that it needs is not there
        return _cannot(expectation, error.message)


def _columns(args: given.Arguments) -> Sequence[str]:
    if isinstance(args, given.Existing):
        return ()
    if isinstance(args, given.OfColumn):
        return (args.column,)
    if isinstance(args, given.Pair):
        return (args.column_A, args.column_B)
    if isinstance(args, given.Matched):
        return args.columns
    return args.column_list if isinstance(args, given.Several) else ()


def _cannot(expectation: Expectation, why: str) -> Verdict:
    info = {"raised_exception": True, "exception_traceback": None, "exception_message": why}
    return Verdict(expectation, False, {}, info)


def _shared(rows: Rows, checks: Sequence[Check]) -> dict[str, Any]:
    """What one pass over the rows answers for all checks: SQL to its value. Sets the number of rows."""
    asked = list(dict.fromkeys(sql for check in checks for sql in check.shared))
    told = rows.ask(", ".join(["count(*)", *asked]))[0]
    rows.count = told[0]
    return dict(zip(asked, told[1:], strict=True))


def _verdict(expectation: Expectation, check: Check, rows: Rows, told: dict[str, Any]) -> Verdict:
    success, result = check.answer(rows, [told[sql] for sql in check.shared])
    wrong = check.unexpected if isinstance(check, EachRow) and not success else ""
    return Verdict(expectation, success, result, wrong=wrong)


def _by_gx(rows: Rows, expectations: Sequence[Expectation]) -> list[Verdict]:
    if not expectations:
        return []
    from pipelines.validation.suites import by_gx

    told = by_gx.judge(rows, expectations)
    return [
        Verdict(expectation, one.success, one.result, one.exception_info, "" if one.success else one.wrong)
        for expectation, one in zip(expectations, told, strict=True)
    ]
