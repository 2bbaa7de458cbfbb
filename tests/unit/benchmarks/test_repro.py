"""The faults that benchmarks/repro.py finds in concurrent runs."""

import pytest

from benchmarks.repro import find_faults, list_differences

GOOD = {"codes": {"run0": 0}, "logs": ["fine"], "begun": {"train": 1}, "expected": {"train": 1}, "differ": {"run0": []}}
BAD = {
    "failed": ({"codes": {"run0": 75}}, {"run0": 75}),
    "locked": ({"logs": ["ERROR: Unable to acquire lock."]}, ["Unable to acquire lock"]),
    "begun": ({"begun": {"train": 2}}, {"train": 2}),
    "different": ({"differ": {"run0": ["verdict.json"]}}, {"run0": ["verdict.json"]}),
}


def test_correct_runs_have_no_fault():
    assert find_faults(**GOOD) == {}


@pytest.mark.parametrize("kind", BAD)
def test_names_the_fault(kind):
    changed, fault = BAD[kind]
    assert find_faults(**{**GOOD, **changed}) == {kind: fault}


def test_lists_files_that_differ_or_are_missing():
    assert list_differences({"a": "1", "b": "2"}, {"a": "1", "b": "2"}) == []
    assert list_differences({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "x", "d": "4"}) == ["b", "c", "d"]
