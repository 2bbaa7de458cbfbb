"""Suites of expectations: read them from expectations/, and judge a partition by one.

A suite is Great Expectations' own JSON, and so are the results. The expectations in `duckdb_expectations` are evaluated
in DuckDB, over the partition's files, with the verdicts of Great Expectations' pandas engine. That engine itself
evaluates all others (`by_gx`), and is imported only then.

    suite = suites.load_suite(folder, "flights")
    with suites.open_rows(lake, "flights_raw", day, "flights") as rows:
        judgement = suites.judge(suite, rows)
    judgement.verdicts   judgement.failures   judgement.list_failures("critical")   judgement.evidence
"""

from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.judging import Judgement, Verdict, judge
from pipelines.validation.suites.rows import Rows, open_rows
from pipelines.validation.suites.suite import Suite, load_suite, parse_suite

__all__ = ["Expectation", "Judgement", "Rows", "Suite", "Verdict", "judge", "load_suite", "open_rows", "parse_suite"]
