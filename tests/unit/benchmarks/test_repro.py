"""Test the faults that benchmarks/repro.py finds in concurrent runs."""

import pytest

from benchmarks.repro import find_faults, list_differences

CORRECT = {
    "codes": {"run0": 0},
    "logs": ["fine"],
    "stage_counts": {"train": 1},
    "expected_counts": {"train": 1},
    "differences": {"run0": []},
}
WRONG = {
    "failed": ({"codes": {"run0": 75}}, {"run0": 75}),
    "errors in logs": ({"logs": ["ERROR: Unable to acquire lock."]}, ["Unable to acquire lock"]),
    "stage_counts": ({"stage_counts": {"train": 2}}, {"train": 2}),
    "different": ({"differences": {"run0": ["verdict.json"]}}, {"run0": ["verdict.json"]}),
}


def test_correct_runs_have_no_fault():
    assert find_faults(**CORRECT) == {}


@pytest.mark.parametrize("kind", WRONG)
def test_each_fault_is_found_and_named(kind):
    changes, fault = WRONG[kind]
    assert find_faults(**{**CORRECT, **changes}) == {kind: fault}


def test_files_that_differ_or_are_missing_are_listed():
    assert list_differences({"a": "1", "b": "2"}, {"a": "1", "b": "2"}) == []
    assert list_differences({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "x", "d": "4"}) == ["b", "c", "d"]
