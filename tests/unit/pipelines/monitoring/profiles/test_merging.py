"""Profiles of parts add up to the profile of the whole: any split, in any order."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import DataError
from pipelines.monitoring.profiles.counting import count
from pipelines.monitoring.profiles.profile import Column, Profile, total
from pipelines.monitoring.profiles.reference import Reference
from pipelines.monitoring.profiles.sketch import quantiles

pytestmark = pytest.mark.usefixtures("home")
Save = Callable[[pd.DataFrame], Path]
Rows = Callable[..., pd.DataFrame]


@pytest.mark.parametrize("seed", range(6))
def test_any_split_in_any_order_adds_up(seed: int, reference: Reference, saved: Save, rows_of: Rows) -> None:
    random = np.random.default_rng(seed)
    frame = rows_of(600, 100 + seed, shift=3.0 * seed)
    cuts = np.sort(random.integers(0, 600, 4))
    # Rows in any order, too: a part is no run of days.
    shuffled = frame.sample(frac=1, random_state=seed)
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, 600], strict=True)]
    profiles = [count(reference, saved(one)) for one in parts]
    random.shuffle(profiles)
    left, whole = total(profiles), count(reference, saved(frame))
    right = profiles[0]
    for one in profiles[1:]:
        right = one + right
    for summed in (left, right):
        assert summed.same(whole)
        for one, two in zip(summed.columns, whole.columns, strict=True):
            assert (one.counts, one.missing, one.n) == (two.counts, two.missing, two.n)
            assert one.mean == (two.mean if two.mean is None else pytest.approx(two.mean, rel=1e-9))
            assert one.m2 == pytest.approx(two.m2, rel=1e-9)


@pytest.mark.parametrize("s1", [math.inf, -math.inf, math.nan, 0.0, 1e308])
def test_sums_that_no_float_holds_are_the_same_in_any_order(s1: float) -> None:
    # 1e308 + 1e308 - 1e308 - 1e308 is infinite, 0 or NaN, by which threads add what first: never the same was written.
    column = Column("x", "number", (0, 2, 2, 0), n=4, s1=math.nan, s2=math.inf, minimum=-1e308, maximum=1e308)
    assert column.same(replace(column, s1=s1))
    assert not column.same(replace(column, s1=s1, s2=1.0))


def test_a_row_more_or_less_is_not_the_same(reference: Reference, saved: Save, rows_of: Rows) -> None:
    frame = rows_of(100, 3)
    made = count(reference, saved(frame))
    assert not made.same(count(reference, saved(frame[1:])))
    moved = frame.assign(rain=frame["rain"] + 1e-7)
    assert not made.same(count(reference, saved(moved)))
    assert not made.same(replace(made, reference="another"))


def test_a_vanished_column_is_still_seen_in_the_window(reference: Reference, saved: Save, rows_of: Rows) -> None:
    frame = rows_of(10, 3)
    both = count(reference, saved(frame)) + count(reference, saved(frame.drop(columns="x")))
    assert (both["x"].absent, both["x"].found, both.rows) == (10, ("nothing",), 20)
    assert sum(both["x"].counts) + both["x"].missing == 10


def test_different_references_do_not_add_up(reference: Reference, saved: Save, rows_of: Rows) -> None:
    path = saved(rows_of(10, 3))
    other = reference.model_copy(update={"categories": ()})
    with pytest.raises(DataError, match=r"over different references, .* do not add up"):
        _ = count(reference, path) + count(Reference.model_validate(other.model_dump()), path)


def test_sketches_add_up(reference: Reference, saved: Save, rows_of: Rows) -> None:
    low, high = (rows_of(4_000, 3).assign(x=np.linspace(*ends, 4_000)) for ends in ((0, 1), (1, 2)))
    both = total(count(reference, saved(one), sketch_rows=10_000) for one in (low, high))
    assert quantiles(both["x"].sketch, [0.25, 0.5, 0.75]) == pytest.approx([0.5, 1.0, 1.5], abs=0.05)


def test_rows_of_a_table_are_it(reference: Reference, saved: Save, rows_of: Rows) -> None:
    made = count(reference, saved(rows_of(50, 3)), sketch_rows=50)
    assert Profile.from_rows(list(made.to_rows())) == made


def test_nothing_to_add_up_is_told(reference: Reference) -> None:
    with pytest.raises(DataError, match="no profile"):
        total([])
    with pytest.raises(DataError, match="of one reference"):
        Profile.from_rows([])


def test_auc_and_brier_of_a_window_come_of_summed_counts(reference: Reference, saved: Save, rows_of: Rows) -> None:
    from sklearn.metrics import brier_score_loss, roc_auc_score

    frame = rows_of(4_000, 3)
    joint = total(count(reference, saved(part)) for part in (frame[:1_000], frame[1_000:])).joint
    no, yes = np.array(joint.counts).reshape(2, -1)
    known = frame[frame["late"].notna()]
    truth, score = known["late"].astype(bool), known["score"]
    auc = (yes * (np.cumsum(no) - no / 2)).sum() / yes.sum() / no.sum()
    assert auc == pytest.approx(roc_auc_score(truth, score), abs=0.005)
    mean = np.array(joint.sums) / np.maximum(joint.counts, 1)
    brier = ((mean - np.repeat([0, 1], len(no))) ** 2 * joint.counts).sum() / sum(joint.counts)
    assert brier == pytest.approx(brier_score_loss(truth, score), abs=0.05**2 / 12 * 1.5)
