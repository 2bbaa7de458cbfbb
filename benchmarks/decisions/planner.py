"""Measure the error of the planner's predictions, and how fast it falls, on simulated trainings and on a real ledger.

Simulated: in each of 50 worlds, 200 trainings of three models on three families of instances. In a world, real times
differ from predictions by model and family (factor exp(normal(0.5, 0.4))) and by job (exp(normal(0, 0.1))); about one
job of 20 takes ten times as long. The prediction of each job is multiplied by a correction factor that was learned from
the jobs before it.

Real: the trainings in the ledger of LEEWAY_HOME that have a prediction: the one in the ledger if the job was planned,
or else one that is computed from earlier jobs of the model. They are corrected in the same way.
The benchmark `backtest` does the same for its trainings of a year.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from pipelines.planning.recommendation.correction import Observation, learn_correction, measure_accuracy
from pipelines.planning.recommendation.history import list_observations

WORLDS, JOBS = 50, 200
MODELS, FAMILIES = ("a", "b", "c"), ("m5", "c5", "g5")
CHECKED_JOBS = (1, 2, 5, 10, 20, 50, 100, 200)
"""Positions of the jobs whose error is stated, from 1: the first job has no past jobs."""
BAND_GROUPS = ((9, "9 or more jobs of the model and family"), (6, "6 to 8 jobs"), (3, "3 to 5 jobs"))
"""Groups by number of past jobs: the smallest number in the group, and its name."""


def simulate(jobs: int, seed: int, noise: float = 0.1, is_biased: bool = True) -> list[Observation]:
    """Simulate the trainings of a world.

    Args:
        jobs: number of trainings.
        seed: seed of the world.
        noise: standard deviation of the logarithm of a job's time.
        is_biased: whether predictions are wrong by model and family; if not, only by job.
    """
    generator = random.Random(seed)
    bias = {(model, family): generator.gauss(0.5, 0.4) if is_biased else 0.0 for model in MODELS for family in FAMILIES}
    observations = []
    for _ in range(jobs):
        model, family = generator.choice(MODELS), generator.choice(FAMILIES)
        predicted_s = generator.uniform(600, 7_200)
        ratio = math.exp(bias[model, family] + generator.gauss(0, noise))
        ratio *= 10 if generator.random() < 0.05 else 1  # one job of 20 takes ten times as long
        actual_s = predicted_s * ratio
        # Each second costs 1 USD.
        observations.append(
            Observation(model, family, predicted_s, actual_s, predicted_usd=predicted_s, actual_usd=actual_s)
        )
    return observations


def run() -> dict[str, Any]:
    """Return the mean errors by number of past jobs, and the shares of times within the band, as facts."""
    worlds = [simulate(JOBS, seed) for seed in range(WORLDS)]
    facts: dict[str, Any] = {
        f"simulated, error of the job after {position - 1} others": f"{fmean(_list_errors(worlds, position)):.2f}"
        for position in CHECKED_JOBS
    }
    accuracies = [measure_accuracy(world) for world in worlds]
    facts["simulated, median error without correction"] = (
        f"{fmean(accuracy.raw_error for accuracy in accuracies if accuracy):.2f}"
    )
    facts |= {
        f"simulated, share of times within the band, {name}": f"{share:.2f}"
        for name, share in _measure_coverage(worlds).items()
    }
    return {"facts": facts | describe_ledger(), "seconds": {}}


def describe_ledger() -> dict[str, Any]:
    """Return the accuracy of the predictions for the ledger's jobs, and the seconds of each; empty without any."""
    from pipelines.costs.ledger import Ledger

    observations = list_observations(Ledger.open().read_rows())
    accuracy = measure_accuracy(observations)
    if accuracy is None:
        return {}
    seconds = [{"predicted_s": round(job.predicted_s, 1), "actual_s": round(job.actual_s, 1)} for job in observations]
    return {"ledger of LEEWAY_HOME": accuracy.describe(), "its trainings, without correction": seconds}


def _list_errors(worlds: Sequence[Sequence[Observation]], position: int) -> list[float]:
    """Return, for each world, the error of the corrected prediction of the job at this position, from 1.

    The error is the absolute logarithm of actual / (predicted x factor), with the factor learned from the jobs before
    it. Errors of log(5) or more are left out: those of jobs that took ten times as long.
    """
    errors = []
    for world in worlds:
        job = world[position - 1]
        factor = learn_correction(world[: position - 1], job.model, job.family).factor
        error = abs(job.log_ratio - math.log(factor))
        errors += [error] if error < math.log(5) else []
    return errors


def _measure_coverage(worlds: Sequence[Sequence[Observation]]) -> dict[str, float]:
    """Return the share of jobs whose time is within the band that was learned from the jobs before it.

    The jobs are grouped by the number of earlier jobs of the same model and family.
    """
    are_in_band: dict[str, list[bool]] = {name: [] for _, name in BAND_GROUPS}
    for world in worlds:
        for index, job in enumerate(world):
            correction = learn_correction(world[:index], job.model, job.family)
            if correction.low and correction.high:
                ratio = math.exp(job.log_ratio) / correction.factor
                name = next(name for fewest, name in BAND_GROUPS if correction.jobs >= fewest)
                are_in_band[name].append(correction.low <= ratio <= correction.high)
    return {name: fmean(values) for name, values in are_in_band.items() if values}
