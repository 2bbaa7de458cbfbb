"""Test the bands of the curves in the gate's report."""

import numpy as np

from pipelines.evaluation.report.curves import compute_curves


def test_band_of_a_perfect_score_is_one_although_draws_have_empty_bins() -> None:
    label = np.repeat([0, 1], 200)
    precision = compute_curves(label, label * 0.5 + np.arange(400) / 1_000).precision
    assert precision.value[0] == 1.0
    assert precision.low[0] == 1.0
    # This is the negative control: the band of a useless score is wide where few rows have a higher score.
    precision = compute_curves(label, np.random.default_rng(0).random(400)).precision
    assert precision.low[0] < 0.5
