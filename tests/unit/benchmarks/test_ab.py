"""Test the simulation of A/B tests."""

import numpy as np

from benchmarks.decisions.ab import CASES, look_daily


def test_a_large_difference_is_found_and_none_is_not() -> None:
    case = CASES["equal shares"]
    looks = {effect: look_daily(np.random.default_rng(1), case, effect, days=30) for effect in (0.0, 0.5)}
    assert looks[0.0].sequential == 0
    assert looks[0.5].sequential == looks[0.5].wald == 14
