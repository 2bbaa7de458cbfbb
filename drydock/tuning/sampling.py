"""Propose hyperparameters, and decide which trials Hyperband stops, with Optuna.

Nothing is stored between two calls: each call builds a study from all trials. So a proposal depends only on the seed,
its number and the results so far. After a kill and a restart, the server makes the same proposals.

Optuna's import takes a second: import this module when the first proposal is needed.
"""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from drydock.tuning.plan import TuningPlan
from drydock.tuning.ranges import CategoricalRange, ContinuousRange, IntegerRange, Range, count_combinations

REDUCTION_FACTOR = 3
"""At each rung, one trial in this number of trials continues."""
MAX_ATTEMPTS = 20
"""Largest number of calls of the sampler to find values that no trial has had."""
MAX_LISTED_COMBINATIONS = 10_000
"""If a sampler has found no new values, the list of all combinations is searched, unless it is longer than this."""
STATES = {
    "running": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class Observation:
    """A trial, as the sampler sees it.

    Attributes:
        values: The hyperparameters.
        state: A key of STATES.
        objective: The objective of a complete or pruned trial.
        series: The value of the objective at each step so far; None for a value that is not finite.
    """

    values: Mapping[str, str]
    state: str
    objective: float | None = None
    series: Sequence[float | None] = ()


def propose(plan: TuningPlan, seed: int, number: int, observations: Sequence[Observation]) -> dict[str, str]:
    """Return the hyperparameters of the next trial: values that no earlier trial had, if they are found.

    Args:
        plan: The tuning job's request.
        seed: Equal seeds give equal proposals after equal results.
        number: How many trials the tuning job has proposed before.
        observations: The trials so far, with those of the parent tuning jobs (warm start). The sampler ignores trials
            that lack a value, or have one outside the ranges.
    """
    if plan.strategy == "Grid":
        return _choose_combination(plan.ranges, number)
    names = [item.name for item in plan.ranges]
    known_values = [{name: observation.values.get(name) for name in names} for observation in observations]
    for attempt in range(MAX_ATTEMPTS):
        study = _create_study(plan, _derive_seed(seed, number, attempt), observations)
        trial = study.ask({item.name: _build_distribution(item) for item in plan.ranges})
        values = {item.name: item.format(trial.params[item.name]) for item in plan.ranges}
        if values not in known_values:
            return values
    return _find_new_combination(plan.ranges, known_values) or values


def is_stopped_by_hyperband(plan: TuningPlan, index: int, observations: Sequence[Observation], step: int) -> bool:
    """Return whether Hyperband stops a trial at a step.

    Args:
        plan: The tuning job's request.
        index: Index of the trial among the observations.
        observations: The trials so far.
        step: How many values of the objective the trial had logged, from 1.
    """
    rungs = set(list_rungs(*plan.resource_bounds))
    if step not in rungs:
        return False
    study = _create_study(plan, seed=0, observations=[])
    study.sampler = optuna.samplers.RandomSampler(seed=0)  # nothing is sampled
    trials = [study.ask() for _ in observations]
    other_indices = [other_index for other_index in range(len(observations)) if other_index != index]
    is_stopped = False
    for trial_index in (*other_indices, index):  # the other trials first, since the trial is compared with them
        series = observations[trial_index].series[: step if trial_index == index else None]
        for resource, value in enumerate(series, 1):
            if resource in rungs:
                trials[trial_index].report(float("nan") if value is None else value, resource)
                is_stopped = trials[trial_index].should_prune()
    return is_stopped


def list_rungs(min_resource: int, max_resource: int) -> list[int]:
    """Return the steps, counted in logged values, at which Hyperband decides whether a trial continues."""
    rungs = [min_resource]
    while rungs[-1] * REDUCTION_FACTOR < max_resource:
        rungs.append(rungs[-1] * REDUCTION_FACTOR)
    return rungs


def _create_study(plan: TuningPlan, seed: int, observations: Sequence[Observation]) -> optuna.Study:
    """Return a study of the trials. Optuna derives a trial's bracket from the study's name and the trial's number."""
    sampler: optuna.samplers.BaseSampler = optuna.samplers.RandomSampler(seed=seed)
    pruner: optuna.pruners.BasePruner = optuna.pruners.NopPruner()
    if plan.strategy != "Random":
        # Each running trial counts as a bad one, so that parallel trials differ.
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    if plan.strategy == "Hyperband":
        low, high = plan.resource_bounds
        pruner = optuna.pruners.HyperbandPruner(low, high, REDUCTION_FACTOR)
    directions = optuna.study.StudyDirection
    direction = directions.MINIMIZE if plan.objective.is_minimized else directions.MAXIMIZE
    study = optuna.create_study(study_name="tuning", direction=direction, sampler=sampler, pruner=pruner)
    study.add_trials([trial for observation in observations if (trial := _build_trial(plan.ranges, observation))])
    return study


def _build_trial(ranges: Sequence[Range], observation: Observation) -> FrozenTrial | None:
    try:
        params = {item.name: item.parse(observation.values[item.name]) for item in ranges}
    except (KeyError, ValueError):  # a parent tuning job searched in other ranges
        return None
    steps = {step: value for step, value in enumerate(observation.series, 1) if value is not None}
    return create_trial(
        state=STATES[observation.state],
        value=observation.objective if observation.state == "complete" else None,
        params=params,
        distributions={item.name: _build_distribution(item) for item in ranges},
        intermediate_values=steps,
    )


def _build_distribution(item: Range) -> BaseDistribution:
    if isinstance(item, IntegerRange):
        return IntDistribution(item.low, item.high, log=item.is_log)
    if isinstance(item, ContinuousRange):
        return FloatDistribution(*item.internal_bounds, log=item.is_log)
    assert isinstance(item, CategoricalRange)
    return CategoricalDistribution(item.values)


def _choose_combination(ranges: Sequence[Range], number: int) -> dict[str, str]:
    combinations = itertools.product(*(item.list_texts() for item in ranges))
    texts = next(itertools.islice(combinations, number, None))
    return {item.name: text for item, text in zip(ranges, texts, strict=True)}


def _find_new_combination(
    ranges: Sequence[Range], known_values: Sequence[Mapping[str, str | None]]
) -> dict[str, str] | None:
    size = count_combinations(ranges)
    if size > MAX_LISTED_COMBINATIONS:
        return None
    combinations = (_choose_combination(ranges, number) for number in range(int(size)))
    return next((values for values in combinations if values not in known_values), None)


def _derive_seed(*numbers: int) -> int:
    text = "/".join(map(str, numbers))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
