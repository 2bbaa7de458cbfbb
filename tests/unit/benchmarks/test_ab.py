"""Test the simulation of A/B tests."""

import numpy as np

from benchmarks.decisions.ab import CASES, simulate_test


def test_a_large_difference_is_found_and_none_is_not() -> None:
    case = CASES["equal shares"]
    results = {effect: simulate_test(np.random.default_rng(1), case, effect, days=30) for effect in (0.0, 0.5)}
    assert results[0.0].sequential_day == 0
    assert results[0.5].sequential_day == results[0.5].wald_day == 14
