"""Simulate checks whose bound equals the true value, on days that are correlated with the days before.

A check passes if the lower end of the mean's one-sided 95 % interval is above the bound. So such a check should pass in
5 % of the simulations. The values of the days are normally distributed. So if an interval is too narrow, the
correlation is the only cause. The gate estimates the variance of the mean from cosine coefficients: see
`pipelines.evaluation.statistics.groups`. The gate's rule for the number of coefficients is compared with a rule that
gives fewer coefficients.
"""

from __future__ import annotations

import itertools
import math
import time
from typing import Any
from unittest import mock

import numpy as np
from scipy.signal import lfilter

from benchmarks.decisions.simulation import Array, format_error
from pipelines.evaluation.statistics import groups
from pipelines.evaluation.statistics.estimate import compute_quantile

SIMULATIONS = 40_000
DAYS, CORRELATIONS = (10, 14, 21, 28, 60, 90), (0.0, 0.25, 0.5, 0.7)
FACTORS = (groups.COEFFICIENT_FACTOR, 0.3)
"""Factors in the rule for the number of coefficients: the gate's factor, and a smaller one."""


def run() -> dict[str, Any]:
    """Return how often checks pass and intervals contain the mean, by days, correlation and number of coefficients."""
    facts = {"simulations of a line": f"{SIMULATIONS:,}; standard error of 5 %: {format_error(0.05, SIMULATIONS)}"}
    start_s = time.perf_counter()
    for days, correlation in itertools.product(DAYS, CORRELATIONS):
        values = simulate_days(days, correlation, SIMULATIONS)
        facts |= dict(measure_interval(values, correlation, factor) for factor in FACTORS)
    return {"facts": facts, "seconds": {"all lines": [time.perf_counter() - start_s]}}


def simulate_days(days: int, correlation: float, simulations: int) -> Array:
    """Simulate normal values of mean 0, each correlated with the value of the day before; shape (days, simulations)."""
    noise = np.random.default_rng([days, round(100 * correlation)]).normal(size=(days, simulations))
    noise[1:] *= math.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=0))


def measure_interval(values: Array, correlation: float, factor: float) -> tuple[str, str]:
    """Measure the gate's interval of the mean of the days' values, with a factor for the number of coefficients.

    Returns:
        The name and the value of a fact: the share of checks that pass, the share of 95 % intervals that contain the
        true mean, and the mean distance of the lower end of the one-sided interval from the mean, in true standard
        errors.
    """
    # The standard error is the norm of the parts that `compute_errors` returns.
    with mock.patch.object(groups, "COEFFICIENT_FACTOR", factor):
        se = np.linalg.norm(groups.compute_errors(values), axis=0)
        coefficients = groups.count_degrees_of_freedom(len(values))
    ratios = values.mean(axis=0) / se
    pass_share = float((ratios > compute_quantile(0.05, coefficients)).mean())
    coverage = float((np.abs(ratios) < compute_quantile(0.025, coefficients)).mean())
    distance = compute_quantile(0.05, coefficients) * float(se.mean()) / compute_true_error(len(values), correlation)
    name = f"{len(values)} days, correlated by {correlation}, {coefficients} coefficients"
    return name, (
        f"a check whose bound is the mean passes in {100 * pass_share:.1f} %, the 95 % interval contains the mean in "
        f"{100 * coverage:.1f} %, the end of the one-sided interval is {distance:.2f} standard errors from it"
    )


def compute_true_error(days: int, correlation: float) -> float:
    """Compute the true standard error of the mean of days with variance 1."""
    distances = np.arange(1, days)
    return math.sqrt((days + 2 * float(((days - distances) * correlation**distances).sum())) / days**2)
