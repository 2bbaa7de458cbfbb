"""What benchmarks/backtest.py looks for after a backtest and after its replay, it finds."""

import datetime as dt
from copy import deepcopy
from typing import Any

import pytest

from benchmarks.backtest import faults, replay_faults

MOMENTS = [dt.date(2013, month, 1) for month in (3, 4, 5)]


def left() -> dict[str, Any]:
    """Three versions, the second refused."""
    told = [("1", "passed", "none"), ("2", "refused", ""), ("3", "passed", "1")]
    versions = [
        {"version": number, "as_of": str(moment), "verdict": verdict}
        | ({"would_promote_over": over} if verdict == "passed" else {})
        for moment, (number, verdict, over) in zip(MOMENTS, told, strict=True)
    ]
    return {"champion": None, "versions": versions}


def replayed() -> dict[str, Any]:
    after = left()
    for one in after["versions"]:
        if one["verdict"] == "passed":
            one["promoted_over"] = "x"
    return after | {"champion": "3"}


def test_a_backtest_as_it_should_be_has_no_fault() -> None:
    assert faults(left(), MOMENTS) == {}
    assert replay_faults(left(), replayed()) == {}


@pytest.mark.parametrize("case", ["a version is missing", "an alias was moved", "it met one of its own future"])
def test_a_wrong_backtest_is_seen(case: str) -> None:
    wrong = left()
    if case == "a version is missing":
        del wrong["versions"][1]
    elif case == "an alias was moved":
        wrong["champion"] = "3"
    else:
        wrong["versions"][0]["would_promote_over"] = "3"
    assert len(faults(wrong, MOMENTS)) == 1


@pytest.mark.parametrize("case", ["another champion", "another verdict", "one was not promoted"])
def test_a_wrong_replay_is_seen(case: str) -> None:
    wrong = deepcopy(replayed())
    if case == "another champion":
        wrong["champion"] = "1"
    elif case == "another verdict":
        wrong["versions"][1]["verdict"] = "passed"
    else:
        del wrong["versions"][0]["promoted_over"]
    assert len(replay_faults(left(), wrong)) == 1
