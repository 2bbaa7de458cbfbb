"""Test that profiles of parts add up to the profile of all rows, for any split and order."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import DataError
from pipelines.monitoring.profiles.counting import count_file
from pipelines.monitoring.profiles.profile import Column, Profile, sum_profiles
from pipelines.monitoring.profiles.reference import Reference

pytestmark = pytest.mark.usefixtures("home")
Save = Callable[[pd.DataFrame], Path]
Rows = Callable[..., pd.DataFrame]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 5, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 5))])
def test_profiles_of_any_split_in_any_order_add_up(
    seed: int, reference: Reference, save: Save, generate_rows: Rows
) -> None:
    random = np.random.default_rng(seed)
    frame = generate_rows(600, 100 + seed, shift=3.0 * seed)
    cuts = np.sort(random.integers(0, 600, 4))
    # Rows are shuffled, too, so that a part is not a range of days.
    shuffled_frame = frame.sample(frac=1, random_state=seed)
    parts = [shuffled_frame[a:b] for a, b in zip([0, *cuts], [*cuts, 600], strict=True)]
    profiles = [count_file(reference, save(part)) for part in parts]
    random.shuffle(profiles)
    sum_from_left, total = sum_profiles(profiles), count_file(reference, save(frame))
    sum_from_right = profiles[0]
    for profile in profiles[1:]:
        sum_from_right = profile + sum_from_right
    for sum_of_profiles in (sum_from_left, sum_from_right):
        assert sum_of_profiles.is_equivalent(total)
        for first, second in zip(sum_of_profiles.columns, total.columns, strict=True):
            assert (first.counts, first.missing, first.n) == (second.counts, second.missing, second.n)
            assert first.mean == (second.mean if second.mean is None else pytest.approx(second.mean, rel=1e-9))
            assert first.squared_deviations == pytest.approx(second.squared_deviations, rel=1e-9)


@pytest.mark.parametrize("s1", [math.inf, -math.inf, math.nan, 0.0, 1e308])
def test_overflowing_sums_are_equivalent_in_any_order(s1: float) -> None:
    # 1e308 + 1e308 - 1e308 - 1e308 is infinite, 0 or NaN, depending on the order. Each run would write a new profile.
    column = Column("x", "number", (0, 2, 2, 0), n=4, s1=math.nan, s2=math.inf, minimum=-1e308, maximum=1e308)
    assert column.is_equivalent(replace(column, s1=s1))
    assert not column.is_equivalent(replace(column, s1=s1, s2=1.0))


def test_profiles_of_different_rows_are_not_equivalent(reference: Reference, save: Save, generate_rows: Rows) -> None:
    frame = generate_rows(100, 3)
    profile = count_file(reference, save(frame))
    assert not profile.is_equivalent(count_file(reference, save(frame[1:])))
    moved_frame = frame.assign(rain=frame["rain"] + 1e-7)
    assert not profile.is_equivalent(count_file(reference, save(moved_frame)))
    assert not profile.is_equivalent(replace(profile, reference="another"))


def test_a_sum_still_shows_that_a_column_vanished(reference: Reference, save: Save, generate_rows: Rows) -> None:
    frame = generate_rows(10, 3)
    sum_of_both = count_file(reference, save(frame)) + count_file(reference, save(frame.drop(columns="x")))
    assert (sum_of_both["x"].absent, sum_of_both["x"].actual_types, sum_of_both.rows) == (10, ("nothing",), 20)
    assert sum(sum_of_both["x"].counts) + sum_of_both["x"].missing == 10


def test_refuses_to_add_profiles_over_different_references(
    reference: Reference, save: Save, generate_rows: Rows
) -> None:
    path = save(generate_rows(10, 3))
    other = reference.model_copy(update={"categories": ()})
    with pytest.raises(DataError, match=r"with different references .* cannot be added"):
        _ = count_file(reference, path) + count_file(Reference.model_validate(other.model_dump()), path)


def test_a_profile_is_rebuilt_from_its_rows(reference: Reference, save: Save, generate_rows: Rows) -> None:
    profile = count_file(reference, save(generate_rows(50, 3)))
    assert Profile.from_rows(list(profile.to_rows())) == profile


def test_refuses_to_add_no_profiles(reference: Reference) -> None:
    with pytest.raises(DataError, match="no profile"):
        sum_profiles([])
    with pytest.raises(DataError, match="have one reference"):
        Profile.from_rows([])


def test_auc_and_brier_are_computed_from_summed_counts(reference: Reference, save: Save, generate_rows: Rows) -> None:
    from sklearn.metrics import brier_score_loss, roc_auc_score

    frame = generate_rows(4_000, 3)
    joint = sum_profiles(count_file(reference, save(part)) for part in (frame[:1_000], frame[1_000:])).joint
    no, yes = np.array(joint.counts).reshape(2, -1)
    labelled_frame = frame[frame["late"].notna()]
    truth, score = labelled_frame["late"].astype(bool), labelled_frame["score"]
    auc = (yes * (np.cumsum(no) - no / 2)).sum() / yes.sum() / no.sum()
    assert auc == pytest.approx(roc_auc_score(truth, score), abs=0.005)
    mean = np.array(joint.sums) / np.maximum(joint.counts, 1)
    brier = ((mean - np.repeat([0, 1], len(no))) ** 2 * joint.counts).sum() / sum(joint.counts)
    assert brier == pytest.approx(brier_score_loss(truth, score), abs=0.05**2 / 12 * 1.5)
