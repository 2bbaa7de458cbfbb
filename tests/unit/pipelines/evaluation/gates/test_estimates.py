"""Test the groups by which a holdout is judged, where rows have no value in the column of the groups."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.evaluation.gates import Policy
from pipelines.evaluation.gates.estimates import estimate_gain, estimate_metric, find_groups, has_too_few_groups
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.policy import Comparison

POLICY = Policy(group_by="crew", min_groups=4)
ROWS = 2_000


def build_holdout(*names: object) -> Holdout:
    """Build a holdout whose rows belong to these groups in turn; the models are worse in the second group."""
    random = np.random.default_rng(4)
    crew = np.arange(ROWS) % len(names)
    label = (random.random(ROWS) < 0.4).astype(float)
    candidate, champion = (1 / (1 + np.exp(-random.normal(gain * label * (crew != 1)))) for gain in (2.0, 1.0))
    frame = pd.DataFrame({"crew": pd.Series([names[number] for number in crew], dtype=object)})
    return Holdout(label, candidate, champion, frame, 0.4, 0.4)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_rows_without_a_value_are_one_group(missing: object) -> None:
    names = ["b", missing, "None", "nan", "a", "missing", "<NA>", "NaT", ""]
    groups = find_groups(build_holdout(*names), POLICY)
    assert groups is not None
    assert groups.shape == (ROWS,)
    members = [{row % len(names) for row in np.flatnonzero(groups == group)} for group in np.unique(groups)]
    assert sorted(members, key=min) == [{position} for position in range(len(names))]


def test_the_missing_value_counts_as_a_group() -> None:
    assert not has_too_few_groups(find_groups(build_holdout("a", None, "b", "c"), POLICY), POLICY)
    assert has_too_few_groups(find_groups(build_holdout("a", None, "b"), POLICY), POLICY)
    assert find_groups(build_holdout("a", None), Policy()) is None


@pytest.mark.parametrize("metric", ["auc", "brier", "ece"])
def test_estimates_are_those_of_a_group_with_a_name(metric: Any) -> None:
    """The group without a name is the first, as the empty text is."""
    holdouts = [build_holdout("c", missing, "b", "a", "d") for missing in (None, "")]
    estimates = [estimate_metric(holdout, metric, POLICY) for holdout in holdouts]
    assert estimates[0] == estimates[1] and estimates[0].groups == 5
    gains = [estimate_gain(holdout, holdout.champion_score, Comparison(metric="auc"), POLICY) for holdout in holdouts]
    assert gains[0] == gains[1]
    merged = estimate_metric(build_holdout("c", "c", "b", "a", "d"), metric, POLICY)
    assert merged.se != estimates[0].se, "the negative control: in another group the rows give another error"
