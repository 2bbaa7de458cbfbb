"""Simulate the gate for a task like regression: how often intervals contain true values, and checks and verdicts pass.

A simulated day has an effect and a quality of each model that all its rows share. Both are independent from day to day,
or correlated by 0.5 with the day before. `pipelines.evaluation` computes the metrics, intervals and checks, but not the
true values.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from pipelines.dataset import Task
from pipelines.evaluation.gates import Policy, combine_outcomes
from pipelines.evaluation.gates.estimates import estimate_metric
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.gates.policy import Comparison, Slices
from pipelines.evaluation.gates.quality import check_against_baselines, check_against_champion
from pipelines.evaluation.gates.task_policy import DEFAULTS, complete_policy
from pipelines.evaluation.gates.verdict import Check
from pipelines.evaluation.statistics.estimate import Estimate

Array = np.ndarray[Any, Any]
CORRELATIONS = {"independent days": 0.0, "correlated days": 0.5}
"""Name of each case, and the correlation of a day's effect with that of the day before."""
DAYS = (14, 28, 60)
ROWS = 80
"""Rows of a simulated day."""
PROCESSES = 6
"""Number of cases that run at a time."""
SHARE_VARIABLE = "LEEWAY_BENCH_SHARE"
"""Environment variable with the share of a task's simulations to run: 0.5 for half of them. By default, all run."""
LAST_WEEK_DAYS = 7
"""Days before the holdout from which a trivial model takes its mean: the last week of the training."""
ChooseCandidate = Callable[[Any], Any]
"""A function that chooses the candidate. Its argument is the mean of the labels in the last week before the holdout,
or, for several classes, their shares."""


@dataclass(frozen=True)
class Simulation:
    """The models of a task, what is true of them, and how often to simulate."""

    simulate: Callable[[ChooseCandidate, int, float, np.random.Generator], Holdout]
    """Takes the function that chooses the candidate, the number of days, their correlation, and a generator."""
    policy: Policy
    """The policy by which the gate judges a candidate."""
    truths: Mapping[str, float]
    """True values of the metrics of a candidate that equals the champion, by name."""
    losses: Mapping[str, float]
    """True loss of the candidate of `choose_worse` against the champion in each metric except the one that the policy
    compares. The losses become the margins of further checks."""
    choose_equal: ChooseCandidate
    """Chooses a candidate that equals the champion."""
    choose_worse: ChooseCandidate
    """Chooses a candidate that is worse than the champion by exactly the tolerated loss."""
    choose_better: ChooseCandidate
    """Chooses a candidate that is better than the champion by `gain`."""
    gain: str
    """How much the candidate of `choose_better` is better, in words."""
    trivial_candidates: Mapping[str, ChooseCandidate]
    """Candidates that are exactly as bad as a trivial model, by the model's name. The name of the check that compares
    with this model ends with the same words."""
    intervals: int
    """Simulations of each interval."""
    checks: int
    """Simulations of each check of a candidate that should not pass."""
    better_checks: int
    """Simulations of each check of the better candidate."""
    verdicts: int
    """Simulations of each verdict."""


@dataclass(frozen=True)
class Misses:
    """Count the intervals that miss the true value."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, name: str, estimate: Estimate, truth: float) -> None:
        """Count the interval, if the truth is below or above it."""
        self.counts[name, "below"] += truth < estimate.low
        self.counts[name, "above"] += truth > estimate.high

    def describe(self, names: Iterable[str], total: int) -> dict[str, str]:
        """Describe for each metric the share of its `total` intervals that contain the truth."""
        facts = {}
        for name in names:
            below, above = self.counts[name, "below"], self.counts[name, "above"]
            misses = f"truth below {format_share(below, total)}, above {format_share(above, total)}"
            share = format_share(total - below - above, total)
            facts[f"{name}: 95 % interval contains the truth"] = f"{share} ({misses})"
        return facts


def run(simulation: Simulation) -> dict[str, Any]:
    """Simulate all cases of a task for each number of days, once independent and once correlated.

    The environment variable LEEWAY_BENCH_SHARE lowers the numbers of simulations.
    """
    share = float(os.environ.get(SHARE_VARIABLE, "1"))
    names = ("intervals", "checks", "better_checks", "verdicts")
    counts = {name: math.ceil(share * getattr(simulation, name)) for name in names}
    simulation = replace(simulation, **counts)
    totals = {
        "interval": (simulation.intervals, 0.95),
        "check": (simulation.checks, 0.05),
        "check of a better candidate": (simulation.better_checks, 0.5),
        "verdict": (simulation.verdicts, 0.05),
    }
    result = measure_cases(DAYS, totals, partial(measure, simulation))
    losses = {f"tolerated loss of {name}": f"{loss:.4g}" for name, loss in simulation.losses.items()}
    return {**result, "facts": losses | result["facts"]}


def measure(simulation: Simulation, dependence: str, days: int) -> dict[str, str]:
    """Simulate intervals, the checks against the champion and the trivial models, and verdicts."""
    worse, better = "candidate worse by exactly the tolerated loss", f"candidate {simulation.gain}"
    correlation = CORRELATIONS[dependence]
    facts = measure_intervals(simulation, days, correlation)
    for title, choose, total in (
        (worse, simulation.choose_worse, simulation.checks),
        (better, simulation.choose_better, simulation.better_checks),
    ):
        passes = measure_champion_checks(simulation, choose, days, correlation, total)
        facts |= {f"{title}: {name}: passed": format_share(count, total) for name, count in passes.items()}
    for trivial_model, choose in simulation.trivial_candidates.items():
        count = measure_baseline_check(simulation, choose, trivial_model, days, correlation)
        facts[f"candidate as bad as {trivial_model}: passed"] = format_share(count, simulation.checks)
    for title, choose in (("equal models", simulation.choose_equal), (worse, simulation.choose_worse)):
        outcomes = measure_verdicts(simulation, choose, days, correlation)
        facts[f"{title}: verdicts"] = ", ".join(
            f"{outcome} {format_share(count, simulation.verdicts)}" for outcome, count in sorted(outcomes.items())
        )
    return facts


def measure_intervals(simulation: Simulation, days: int, correlation: float) -> dict[str, str]:
    """Count how often the 95 % intervals of a candidate's metrics contain the truth."""
    misses, policy = Misses(), simulation.policy.model_copy(update={"alpha": 0.025})
    for number in range(simulation.intervals):
        holdout = simulation.simulate(simulation.choose_equal, days, correlation, np.random.default_rng([days, number]))
        for name, truth in simulation.truths.items():
            misses.add(name, estimate_metric(holdout, name, policy), truth)
    return misses.describe(simulation.truths, simulation.intervals)


def measure_champion_checks(
    simulation: Simulation, choose: ChooseCandidate, days: int, correlation: float, total: int
) -> Counter[str]:
    """Count how often, of `total` simulations, a candidate passes the comparison with the champion in each metric."""
    other_comparisons = [Comparison(metric=name, margin=loss) for name, loss in simulation.losses.items()]
    policy = simulation.policy.model_copy(update={"champion": [*simulation.policy.champion, *other_comparisons]})
    return _count_passes(
        simulation, choose, days, correlation, total, lambda holdout: check_against_champion(holdout, policy)
    )


def measure_baseline_check(
    simulation: Simulation, choose: ChooseCandidate, trivial_model: str, days: int, correlation: float
) -> int:
    """Count how often a candidate passes the check whose name ends with the name of the trivial model."""
    policy, total = simulation.policy, simulation.checks
    passes = _count_passes(
        simulation, choose, days, correlation, total, lambda holdout: check_against_baselines(holdout, policy)
    )
    (count,) = (count for name, count in passes.items() if name.endswith(trivial_model))
    return count


def measure_verdicts(simulation: Simulation, choose: ChooseCandidate, days: int, correlation: float) -> Counter[str]:
    """Count the verdicts of the gate on a candidate."""
    outcomes: Counter[str] = Counter()
    for number in range(simulation.verdicts):
        holdout = simulation.simulate(choose, days, correlation, np.random.default_rng([days, number, 1]))
        outcomes[combine_outcomes(judge(JudgedData(holdout), simulation.policy).checks)] += 1
    return outcomes


def _count_passes(
    simulation: Simulation,
    choose: ChooseCandidate,
    days: int,
    correlation: float,
    total: int,
    check: Callable[[Holdout], list[Check]],
) -> Counter[str]:
    passes: Counter[str] = Counter()
    for number in range(total):
        holdout = simulation.simulate(choose, days, correlation, np.random.default_rng([days, number, 2]))
        for result in check(holdout):
            passes[result.name] += result.outcome == "passed"
    return passes


def build_policy(holdout: Holdout) -> Policy:
    """Build the default policy of the holdout's task, grouped by day, without the checks of packages and leaks."""
    policy = Policy(group_by="date", slices=Slices(columns=["origin"]), min_rows=1_000, serving=None, max_solo_auc=None)
    return complete_policy(policy, holdout.task, holdout.metrics)


def choose_always(model: Any) -> ChooseCandidate:
    """Return a function that chooses this model."""
    return partial(_choose, model)


def _choose(model: Any, _: Any) -> Any:
    return model


def find_margin(task: Task) -> float:
    """Return the loss against the champion that the default policy of the task tolerates."""
    (comparison,) = DEFAULTS[task]["champion"]
    return float(comparison.margin)


def measure_cases(
    day_counts: Iterable[int], totals: Mapping[str, tuple[int, float]], measure: Callable[[str, int], dict[str, str]]
) -> dict[str, Any]:
    """Measure each number of independent and of correlated days. Return the facts and the seconds of each case.

    `PROCESSES` cases run at a time.

    Args:
        day_counts: numbers of days.
        totals: for each kind of simulation (interval, check, verdict), how many there are, and the expected share of
            intervals that contain the truth, or of checks or verdicts that pass.
        measure: returns the facts of a case, from a key of `CORRELATIONS` and a number of days. It must be picklable,
            because other processes call it.
    """
    facts = {
        f"simulations of {'an' if name[0] in 'aeiou' else 'a'} {name}": (
            f"{total:,}; standard error of {100 * share:.0f} %: {format_error(share, total)}"
        )
        for name, (total, share) in totals.items()
    }
    cases = list(itertools.product(CORRELATIONS, day_counts))
    seconds: dict[str, list[float]] = {}
    with ProcessPoolExecutor(PROCESSES) as pool:
        results = pool.map(partial(_time_case, measure), cases)
        for (dependence, days), (case_facts, case_s) in zip(cases, results, strict=True):
            case = f"{dependence}, {days} days"
            facts |= {f"{case}: {name}": value for name, value in case_facts.items()}
            seconds[case] = [case_s]
            print(f"{case}: {case_s:.0f} s", file=sys.stderr, flush=True)
    return {"facts": facts, "seconds": seconds}


def _time_case(measure: Callable[[str, int], dict[str, str]], case: tuple[str, int]) -> tuple[dict[str, str], float]:
    start_s = time.perf_counter()
    return measure(*case), time.perf_counter() - start_s


def number_days(days: int, rows: int) -> tuple[Array, Array]:
    """Return, for each row of a holdout and of the week before it, its day's number and whether it is in the holdout.

    The days of that week have the numbers 0 to 6.
    """
    day = np.repeat(np.arange(days + LAST_WEEK_DAYS), rows)
    return day, day >= LAST_WEEK_DAYS


def build_features(day: Array, random: np.random.Generator) -> pd.DataFrame:
    """Build the columns that the policy names."""
    dates = pd.Timestamp("2013-03-01") + pd.to_timedelta(day, unit="D")
    return pd.DataFrame({"date": dates, "origin": random.choice(["EWR", "JFK", "LGA"], len(day))})


def draw_day_values(days: int, correlation: float, random: np.random.Generator) -> Array:
    """Draw a standard normal value for each day, correlated with the day before."""
    noise = random.normal(size=days)
    values = np.empty(days)
    values[0] = noise[0]
    for number in range(1, days):
        values[number] = correlation * values[number - 1] + math.sqrt(1 - correlation**2) * noise[number]
    return values


def format_share(count: int, total: int) -> str:
    """Format a share as a percentage."""
    return f"{100 * count / total:.1f} %"


def format_error(share: float, total: int) -> str:
    """Format the standard error of a share that was counted in this many simulations."""
    return f"{100 * math.sqrt(share * (1 - share) / total):.1f} points"
