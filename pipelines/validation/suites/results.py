"""The results of the expectations of a suite on one partition, with the engine that judged each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.suite import Suite

EngineName = Literal["duckdb", "gx"]
"""Engine that judges an expectation: Leeway's SQL in DuckDB, or Great Expectations."""
MAX_EXAMPLES = 3
"""Maximum number of examples in a summary."""
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
    engine: EngineName = "duckdb"
    """Engine that judged the expectation."""

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
            "meta": {"engine": self.engine},
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
            unexpected_count, row_count = self.result["unexpected_count"], self.result.get("element_count") or 0
            share = f" ({100 * unexpected_count / row_count:.3g} %)" if unexpected_count and row_count else ""
            return f"{unexpected_count:,} of {row_count:,} rows{share}"
        value = self.result.get("observed_value")
        return "" if value is None else str(value)

    @property
    def examples(self) -> list[str]:
        """The first unexpected values; if there are none, the first required values that the column does not have."""
        values = self.result.get("partial_unexpected_list") or self.result.get("partial_missing_list") or []
        return [str(value)[:80] for value in values[:MAX_EXAMPLES]]

    @property
    def error(self) -> str:
        """Why the expectation could not be evaluated; empty if it was evaluated."""
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
    engine: EngineName = "duckdb"
    """The requested engine. If an expectation needs the other engine, its result is from that engine."""

    @property
    def evaluated_count(self) -> int:
        """Number of expectations of the suite, including those that failed because they could not be evaluated."""
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
        failed_results = [result for result in self.results if not result.success and result.unexpected_sql]
        return [result for result in failed_results if result.expectation.severity == "warning"]

    def count_by_engine(self) -> dict[str, int]:
        """Return the number of expectations that each engine judged."""
        return dict(Counter(result.engine for result in self.results))

    @property
    def evidence(self) -> dict[str, Any]:
        """The complete result, in the JSON of Great Expectations."""
        success_count = sum(result.success for result in self.results)
        return {
            "success": success_count == self.evaluated_count,
            "suite_name": self.suite.name,
            "suite_parameters": {},
            "statistics": {
                "evaluated_expectations": self.evaluated_count,
                "successful_expectations": success_count,
                "unsuccessful_expectations": self.evaluated_count - success_count,
                "success_percent": success_count / self.evaluated_count * 100 if self.evaluated_count else None,
            },
            "results": [result.to_json_values() for result in self.results],
            "meta": {"suite_digest": self.suite.digest, "engine": self.engine, "engines": self.count_by_engine()},
            "id": None,
        }
