"""Build Optuna's sampler and pruner for a plan, and the rounds after which a trial is judged."""

from __future__ import annotations

import itertools
import math
from typing import Any

from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.rungs import REDUCTION, compute_first_rung
from pipelines.tuning.space import Value, list_grid_values

MEDIAN_CHECKS = 20
"""Number of equal parts of a trial's rounds. Median early stopping judges the trial after each part but the last."""
MEDIAN_STARTUP_TRIALS = 5
"""Number of trials that must be complete before median early stopping stops a trial."""


def build_sampler(plan: PlanSpec, number: int) -> BaseSampler:
    """Build the sampler for one trial.

    The seed depends on the number of the trial. So a search that was killed and resumes proposes the same values as a
    search that was not killed. With a fixed seed, a resumed search would propose the values of its first trials again.
    """
    # The factor keeps the seeds of plans with neighboring seeds apart.
    seed = (plan.seed * 1_000_003 + number) % 2**32
    if plan.strategy in {"random", "grid"}:  # the points of a grid are enqueued, and not sampled
        return RandomSampler(seed=seed)
    # constant_liar: a trial that runs counts as a poor one, so that parallel trials do not get the same values.
    return TPESampler(seed=seed, constant_liar=True)


def build_pruner(plan: PlanSpec, num_round: int) -> BasePruner:
    """Build the pruner, which decides after the rounds of `list_rungs` whether a trial is stopped."""
    if plan.strategy == "hyperband":
        return HyperbandPruner(compute_first_rung(num_round), num_round, REDUCTION)
    if plan.early_stopping == "median":
        return MedianPruner(n_startup_trials=MEDIAN_STARTUP_TRIALS)
    return NopPruner()


def list_rungs(plan: PlanSpec, num_round: int) -> list[int]:
    """List the numbers of rounds after which a trial is judged, ascending; empty if trials are not judged.

    Only these rounds are reported to Optuna, because each report is written to the disk. Rungs of Hyperband above half
    of the rounds are left out: a stop there would save less than half of a trial.
    """
    if plan.strategy == "hyperband":
        first_rung = compute_first_rung(num_round)
        rungs = itertools.takewhile(
            lambda rung: 2 * rung <= num_round, (first_rung * REDUCTION**number for number in itertools.count())
        )
        return list(rungs)
    if plan.early_stopping == "median":
        return sorted({math.ceil(num_round * number / MEDIAN_CHECKS) for number in range(1, MEDIAN_CHECKS)})
    return []


def build_grid_point(plan: PlanSpec, number: int) -> dict[str, Any]:
    """Return the point of the grid that has this number; the first point has number 0."""
    values = list_grid_values(plan.space)
    point: dict[str, Value] = {}
    for name in reversed(values):
        number, index = divmod(number, len(values[name]))
        point[name] = values[name][index]
    return {name: point[name] for name in values}
