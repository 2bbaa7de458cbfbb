"""Test how the holdout is split into slices, and how a slice is judged."""

import numpy as np
import pandas as pd
import pytest

from pipelines.evaluation.gates import FAILED, PASSED, Policy
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.holdout_parts import _compute_p_value, _split_by_value, check_slices
from pipelines.evaluation.statistics.estimate import Estimate


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a", None, "b", float("nan"), "a"], {"a": [0, 4], "b": [2], "missing": [1, 3]}),
        (["missing", None, "a"], {"missing": [0], "a": [2], "no value": [1]}),
        (["nan", "None", None], {"nan": [0], "None": [1], "missing": [2]}),
        ([1.0, 2.0, np.nan], {"1.0": [0], "2.0": [1], "missing": [2]}),
        (["a"], {"a": [0]}),
    ],
)
def test_each_row_is_in_one_slice(values: list[object], expected: dict[str, list[int]]) -> None:
    masks = dict(_split_by_value(pd.Series(values)))
    assert {name: np.flatnonzero(mask).tolist() for name, mask in masks.items()} == expected


@pytest.mark.parametrize(
    ("value", "bound", "p_value"), [(0.6, 0.7, 0.0), (0.7, 0.7, 1.0), (0.8, 0.7, 1.0), (-0.2, -0.1, 0.0)]
)
def test_without_a_standard_error_the_value_alone_decides(value: float, bound: float, p_value: float) -> None:
    """It is 0 where all groups have the same value. A division would give no p-value, or a warning."""
    assert _compute_p_value(Estimate(value, value, value, 0.0, 100, 12, 3), bound) == p_value


def build_equal_days(is_bad_slice: bool) -> Holdout:
    """Build 12 days of the same rows. The champion is perfect, and the candidate is too, but for the bad slice JFK."""
    label, origins = np.tile([0.0, 1.0], 200), np.repeat(["EWR", "JFK"], 200)
    champion = np.where(label == 1, 0.9, 0.1)
    candidate = np.where((origins == "JFK") & is_bad_slice, 0.5, champion)
    days = pd.Timestamp("2013-03-01") + pd.to_timedelta(np.repeat(np.arange(12), 400), unit="D")
    frame = pd.DataFrame({"date": days, "origin": np.tile(origins, 12)})
    return Holdout(np.tile(label, 12), np.tile(candidate, 12), np.tile(champion, 12), frame, 0.5, 0.5)


@pytest.mark.parametrize(("is_bad_slice", "outcome"), [(True, FAILED), (False, PASSED)])
def test_days_without_any_difference_between_them_are_judged(is_bad_slice: bool, outcome: str) -> None:
    policy = Policy(group_by="date", slices={"columns": ["origin"], "min_rows": 100, "max_drop": 0.1}, champion=[])
    (check,), table = check_slices(build_equal_days(is_bad_slice), policy)
    assert check.outcome == outcome
    assert dict(zip(table["part"], table["p_value"], strict=True)) == {"EWR": 1, "JFK": 0 if is_bad_slice else 1}
