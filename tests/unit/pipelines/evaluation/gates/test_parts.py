"""Test how the holdout is split into slices."""

import numpy as np
import pandas as pd
import pytest

from pipelines.evaluation.gates.parts import _split_by_value


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
