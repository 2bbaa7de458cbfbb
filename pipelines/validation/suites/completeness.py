"""Add to a suite the expectations that every suite has: the partition does not shrink, and does not end early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipelines.dataset import Dataset
from pipelines.validation.evaluators.duckdb_expectations import COMPLETENESS, EARLY_END, SHRINK
from pipelines.validation.suites.expectation import Expectation
from pipelines.validation.suites.suite import Suite

_WHY = "Part of every suite: a truncated source must not replace a complete day, or be published as one."


def add_completeness_expectations(suite: Suite, dataset: Dataset, *, allow_shrink: bool = False) -> Suite:
    """Return the suite with both expectations. Its digest is still that of the expectations in the suite's file.

    If the file of the suite lists one of the two, that expectation keeps its kwargs, and its severity unless
    `allow_shrink` is true. Missing kwargs are taken from the dataset.

    Args:
        suite: the suite as it was read.
        dataset: dataset that defines the key, the column with the time of an event, the time zone, and the columns
            `series`, such as a station: for each of their values, the end of the day is checked separately.
        allow_shrink: whether a partition may shrink and may end early: then both have the severity `info`, and a
            failure is only reported.
    """
    defaults: dict[str, dict[str, Any]] = {SHRINK: {"key": [*dataset.key]}, EARLY_END: {}}
    if dataset.event_time:
        defaults[EARLY_END] = {"column": dataset.event_time, "timezone": dataset.timezone, "series": [*dataset.series]}
    listed_types = {expectation.type for expectation in suite.expectations}
    added_expectations = [
        Expectation(type=kind, kwargs={}, meta={"why": _WHY}) for kind in COMPLETENESS if kind not in listed_types
    ]
    expectations = [
        _complete_expectation(expectation, defaults[expectation.type], allow_shrink)
        if expectation.type in defaults
        else expectation
        for expectation in (*suite.expectations, *added_expectations)
    ]
    return replace(suite, expectations=expectations)


def _complete_expectation(expectation: Expectation, defaults: dict[str, Any], allow_shrink: bool) -> Expectation:
    severity = "info" if allow_shrink else expectation.severity
    return expectation.model_copy(update={"kwargs": defaults | expectation.kwargs, "severity": severity})
