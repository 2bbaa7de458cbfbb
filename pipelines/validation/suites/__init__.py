"""Read suites of expectations from expectations/, and judge a partition by a suite.

Suites and results have the JSON format of Great Expectations. DuckDB evaluates the expectations that
`duckdb_expectations` lists, over the partition's files. Its results are those of Great Expectations' pandas engine. The
module `gx_engine` evaluates all other expectations with Great Expectations itself; with `engine="gx"`, it evaluates
every expectation that Great Expectations knows. The module is imported only if needed, since the import takes 2 s.

    suite = suites.load_suite(folder, "flights")
    with suites.open_rows(lake, "flights_raw", day, "flights") as rows:
        judgement = suites.judge(suite, rows)
    judgement.results   judgement.failures   judgement.list_failures("critical")   judgement.evidence
"""

from pipelines.validation.evaluators.duckdb_expectations import COMPLETENESS
from pipelines.validation.evaluators.rows import Rows, open_rows
from pipelines.validation.suites.completeness import add_completeness_expectations
from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.judging import judge
from pipelines.validation.suites.results import EngineName, ExpectationResult, Judgement
from pipelines.validation.suites.suite import Suite, load_suite, parse_suite

__all__ = [
    "COMPLETENESS",
    "EngineName",
    "Expectation",
    "ExpectationResult",
    "Judgement",
    "Rows",
    "Suite",
    "add_completeness_expectations",
    "judge",
    "load_suite",
    "open_rows",
    "parse_suite",
]
