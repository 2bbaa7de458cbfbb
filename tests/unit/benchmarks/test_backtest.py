"""Test the faults that benchmarks/backtest.py finds after a backtest, and after its repetition with promotion."""

import datetime as dt
from copy import deepcopy
from typing import Any

import pytest

from benchmarks.backtest import find_faults, find_repetition_faults

MOMENTS = [dt.date(2013, month, 1) for month in (3, 4, 5)]


def build_state() -> dict[str, Any]:
    """Return a registry with three versions, the second refused."""
    rows = [("1", "passed", "none"), ("2", "refused", ""), ("3", "passed", "1")]
    versions = [
        {"version": number, "as_of": str(moment), "verdict": verdict}
        | ({"would_promote_over": over} if verdict == "passed" else {})
        for moment, (number, verdict, over) in zip(MOMENTS, rows, strict=True)
    ]
    return {"champion": None, "versions": versions}


def build_state_after_repetition() -> dict[str, Any]:
    """Return the registry after the repetition: the versions that passed are promoted."""
    state = build_state()
    for version in state["versions"]:
        if version["verdict"] == "passed":
            version["promoted_over"] = "x"
    return state | {"champion": "3"}


def test_correct_backtest_has_no_fault() -> None:
    assert find_faults(build_state(), MOMENTS) == {}
    assert find_repetition_faults(build_state(), build_state_after_repetition()) == {}


@pytest.mark.parametrize("case", ["a version is missing", "an alias was moved", "compared with a later version"])
def test_check_finds_a_fault_of_a_backtest(case: str) -> None:
    state = build_state()
    if case == "a version is missing":
        del state["versions"][1]
    elif case == "an alias was moved":
        state["champion"] = "3"
    else:
        state["versions"][0]["would_promote_over"] = "3"
    assert len(find_faults(state, MOMENTS)) == 1


@pytest.mark.parametrize("case", ["another champion", "another verdict", "a version was not promoted"])
def test_check_finds_a_fault_of_a_repetition(case: str) -> None:
    state = deepcopy(build_state_after_repetition())
    if case == "another champion":
        state["champion"] = "1"
    elif case == "another verdict":
        state["versions"][1]["verdict"] = "passed"
    else:
        del state["versions"][0]["promoted_over"]
    assert len(find_repetition_faults(build_state(), state)) == 1


def test_repetition_without_a_passed_version_has_no_champion() -> None:
    state = build_state()
    state["versions"] = [version for version in state["versions"] if version["verdict"] != "passed"]
    assert find_repetition_faults(state, state) == {}
    assert find_repetition_faults(state, state | {"champion": "2"}) == {"champion": "2"}
