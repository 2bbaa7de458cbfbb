"""Suites of expectations: reading them from expectations/, and judging a partition by one.

A suite is Great Expectations' own JSON, and so are the results. What is in `known` is evaluated in DuckDB, over the
partition's files, with the verdicts of Great Expectations' pandas engine; the rest by that engine itself (`by_gx`),
and only then is it imported.

    suite = suites.load(folder, "flights")                       # suites.parse(name, json, origin) for JSON at hand
    with suites.rows_of(lake, "flights_raw", day, "flights") as rows:
        judgement = suites.judge(suite, rows)
    judgement.verdicts   judgement.failures   judgement.of("critical")   judgement.evidence
"""

from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.judging import Judgement, Verdict, judge
from pipelines.validation.suites.rows import Rows, rows_of
from pipelines.validation.suites.suite import Suite, load, parse

__all__ = ["Expectation", "Judgement", "Rows", "Suite", "Verdict", "judge", "load", "parse", "rows_of"]
