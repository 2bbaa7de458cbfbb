"""Test the seconds that the benchmark of several hosts expects on real networks."""

import pytest

from benchmarks.spot.hosts import DEPTH, HOP_S, ROUNDS, estimate_networks

ROUND_COUNT = ROUNDS - 1


def test_seconds_are_those_of_a_share_of_the_rounds_and_of_the_network():
    seconds = {f"1 host, {ROUND_COUNT} rounds": [50.0, 40.0, 39.0]}
    facts = {"2 hosts, MiB sent in a round": 2.0, "4 hosts, MiB sent in a round": 0.0}
    estimates = estimate_networks(seconds, facts)
    hops_s = ROUND_COUNT * DEPTH * 2 * HOP_S
    slow_s = ROUND_COUNT * 2**20 / 0.125e9
    assert estimates[f"2 hosts, {ROUND_COUNT} rounds expected on 1 Gbit/s, s"] == pytest.approx(
        20 + slow_s + hops_s, abs=0.01
    )
    assert estimates[f"4 hosts, {ROUND_COUNT} rounds expected on 25 Gbit/s, s"] == pytest.approx(
        10 + 3 * hops_s, abs=0.01
    )
