"""What benchmarks/repro.py asks of runs at once, it finds where it is not so."""

import pytest

from benchmarks.repro import differing, faults

GOOD = {"codes": {"run0": 0}, "logs": ["fine"], "begun": {"train": 1}, "expected": {"train": 1}, "differ": {"run0": []}}
BAD = {
    "failed": ({"codes": {"run0": 75}}, {"run0": 75}),
    "locked": ({"logs": ["ERROR: Unable to acquire lock."]}, ["Unable to acquire lock"]),
    "begun": ({"begun": {"train": 2}}, {"train": 2}),
    "different": ({"differ": {"run0": ["verdict.json"]}}, {"run0": ["verdict.json"]}),
}


def test_runs_that_are_right_have_no_fault():
    assert faults(**GOOD) == {}


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_named(what):
    given, told = BAD[what]
    assert faults(**{**GOOD, **given}) == {what: told}


def test_a_file_that_differs_is_missing_or_is_more_is_named():
    assert differing({"a": "1", "b": "2"}, {"a": "1", "b": "2"}) == []
    assert differing({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "x", "d": "4"}) == ["b", "c", "d"]
