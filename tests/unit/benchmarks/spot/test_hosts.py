"""Test the seconds that the benchmark of several hosts expects on real networks."""

import pytest

from benchmarks.spot.hosts import DEPTH, HOP_S, ROUNDS, estimate_networks

ROUND_COUNT = ROUNDS - 1


def test_seconds_are_those_of_the_busiest_host_and_of_the_network():
    name = f"{ROUND_COUNT} rounds, CPU of the busiest host"
    seconds = {f"1 host, {name}": [50.0, 40.0, 39.0], f"2 hosts, {name}": [23.0, 22.0], f"4 hosts, {name}": [13.0]}
    facts = {"2 hosts, MiB sent in a round": 2.0, "4 hosts, MiB sent in a round": 0.0}
    estimates = estimate_networks(seconds, facts)
    hops_s = ROUND_COUNT * DEPTH * 2 * HOP_S
    slow_s = ROUND_COUNT * 2**20 / 0.125e9
    expected = {
        "2 hosts": ("1 Gbit/s", 22.5 + slow_s + hops_s, 20 + slow_s + hops_s),
        "4 hosts": ("25 Gbit/s", 13 + 3 * hops_s, 10 + 3 * hops_s),
    }
    for hosts, (network, measured_s, planned_s) in expected.items():
        text = f"{hosts}, {ROUND_COUNT} rounds expected on {network}"
        assert estimates[f"{text}, s"] == pytest.approx(measured_s, abs=0.01)
        assert estimates[f"{text} by the planner's model, s"] == pytest.approx(planned_s, abs=0.01)
