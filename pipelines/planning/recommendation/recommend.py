"""Recommend instances: estimate time and cost on each type and number, and exclude what does not fit the limits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipelines.costs.charges import HOUR_S
from pipelines.errors import DataError, SpecError
from pipelines.instances.catalogue import Instance
from pipelines.planning.checkpoints import InterruptedRun, compute_mean_time_s, estimate_interrupted_run
from pipelines.planning.recommendation.checks import apply_limits
from pipelines.planning.recommendation.correction import (
    Accuracy,
    Correction,
    Corrector,
    Observation,
    make_corrector,
    measure_accuracy,
)
from pipelines.planning.recommendation.limits import Limits
from pipelines.planning.recommendation.options import Exclusion, Market, Option, Recommendation
from pipelines.planning.recommendation.quotes import Quote
from pipelines.planning.recommendation.workloads import Estimate, Infeasibility, Machines, Workload

NO_LIMITS = Limits()
CHECKPOINT_S, SAVE_S, RESTART_S = 900.0, 10.0, 300.0
"""Assumptions about a training on spot: seconds between two checkpoints, seconds of a save, and seconds of a restart.
They have an effect only where the rate of interruptions is known."""


@dataclass(frozen=True)
class Request:
    """A request for a recommendation.

    Attributes:
        workload: the training.
        instances: instance types to compare.
        quotes: maps each region to its instance types, and each of these to its prices, waits and interruptions.
        limits: deadline, budget, and the times after which a job is stopped.
        observations: past jobs with their predictions, oldest first.
        unusable_jobs: names of the past jobs that are left out, because a figure is missing or not possible.
        market: on demand or spot, if the training runs on only one of them; None: both are compared.
        neuron_types: types with AWS's own accelerators that may be recommended. The other types of this kind are
            excluded, because they run only trainings that use the AWS Neuron SDK.
    """

    workload: Workload
    instances: Sequence[Instance]
    quotes: Mapping[str, Mapping[str, Quote]]
    limits: Limits = NO_LIMITS
    observations: Sequence[Observation] = ()
    neuron_types: Collection[str] = ()
    unusable_jobs: Sequence[str] = ()
    market: Market | None = None


def recommend(request: Request) -> Recommendation:
    """Recommend instances for a training. Pure: it reads no file, and equal requests give equal results."""
    options: list[Option] = []
    exclusions: list[Exclusion] = []
    find_correction = make_corrector(request.observations, request.workload.model)
    for region, quotes in request.quotes.items():
        for instance in request.instances:
            result = _examine(request, region, instance, quotes.get(instance.name), find_correction)
            if isinstance(result, Exclusion):
                exclusions.append(result)
            else:
                options += result
                exclusions += _explain_missing_spot(request, result, quotes[instance.name])
    return Recommendation(
        workload=request.workload.describe(),
        limits=request.limits,
        options=tuple(sorted(options, key=lambda option: (option.cost_usd, option.finish_s, option.machines))),
        exclusions=tuple(exclusions),
        accuracy=_measure_accuracy(request, options, exclusions),
        unusable_jobs=tuple(request.unusable_jobs),
    )


def _explain_missing_spot(request: Request, options: Sequence[Option], quote: Quote) -> Iterable[Exclusion]:
    """Yield why a type has no option on spot; nothing if it has one, or if the request names one market.

    The kind of this exclusion is "on demand", because the type remains an option on demand.
    """
    if request.market is not None or any(option.market == "spot" for option in options):
        return
    if quote.spot_saving is None:
        reason = "the saving by spot is not known: `python -m pipelines prices refresh` reads it from AWS"
    else:
        reason = "on spot, it does not end within the limits, or is interrupted too often"
    yield Exclusion(options[0].instance_type, options[0].region, "on demand", reason)


def _measure_accuracy(request: Request, options: Iterable[Option], exclusions: Iterable[Exclusion]) -> Accuracy | None:
    """Measure the error of past predictions that have the same basis as one of the present predictions."""
    present_options = [*options, *(entry.nearest for entry in exclusions if entry.nearest)]
    bases = {option.basis for option in present_options}
    return measure_accuracy([entry for entry in request.observations if entry.basis in bases])


def require_option(recommendation: Recommendation) -> Option:
    """Return the cheapest option within the limits.

    Raises:
        DataError: there is none; the message says what would fit. A retry cannot help.
    """
    if recommendation.cheapest is None:
        raise DataError(
            f"no instance type fits ({recommendation.limits.describe()}).", recommendation.describe_nearest()
        )
    return recommendation.cheapest


def _examine(
    request: Request,
    region: str,
    instance: Instance,
    quote: Quote | None,
    find_correction: Corrector,
) -> Exclusion | list[Option]:
    """Return the options of an instance type that are within the limits, or why there is none."""
    if instance.device and instance.device.is_neuron and instance.name not in request.neuron_types:
        text = f"its {instance.accelerator} needs the AWS Neuron SDK: if you train with it, use --allow {instance.name}"
        return Exclusion(instance.name, region, "neuron", text)
    estimates, infeasibility = _estimate_counts(request.workload, instance)
    if infeasibility:
        return Exclusion(instance.name, region, infeasibility.kind, infeasibility.reason, infeasibility.fitting_count)
    if quote is None:
        return Exclusion(instance.name, region, "price", f"no price is known in {region}")
    if instance.is_burstable and all(estimate.scaled_from for _, estimate in estimates):
        text = "its vCPUs are slowed down after some minutes of full load, so times of other types say nothing about it"
        return Exclusion(instance.name, region, "burstable", text)
    options = [
        option
        for machines, estimate in estimates
        for option in build_options(
            machines, estimate, region, quote, find_correction(instance.family, estimate.basis), request.market
        )
    ]
    if not options:
        return Exclusion(
            instance.name, region, "spot", "interruptions are so frequent that a spot job would hardly advance"
        )
    return apply_limits(request.limits, options, instance.name, region)


def _estimate_counts(
    workload: Workload, instance: Instance
) -> tuple[list[tuple[Machines, Estimate]], Infeasibility | None]:
    """Return the estimates for the numbers of instances that fit; if none fits, the reason for the largest number."""
    estimates, infeasibility = [], None
    for count in workload.counts:
        machines = Machines(instance, count)
        result = workload.estimate(machines)
        if isinstance(result, Infeasibility):
            infeasibility = result
        else:
            estimates.append((machines, result))
    return estimates, None if estimates else infeasibility


def build_options(
    machines: Machines,
    estimate: Estimate,
    region: str,
    quote: Quote,
    correction: Correction,
    market: Market | None = None,
) -> Iterable[Option]:
    """Yield the option in `market`; None: the one on demand, and the one on spot if the saving by spot is known."""
    seconds, low_s, high_s = _correct(estimate, correction)
    usd_s = quote.price.usd_h * machines.count / HOUR_S
    plans = {term: plan.usd_h * machines.count * seconds / HOUR_S for term, plan in quote.plans.items()}
    on_demand = Option(
        instance_type=machines.instance.name,
        count=machines.count,
        region=region,
        market="on demand",
        seconds=seconds,
        low_s=low_s,
        high_s=high_s,
        uncorrected_s=estimate.seconds,
        wait_s=quote.wait_s,
        cost_usd=usd_s * seconds,
        high_usd=usd_s * high_s,
        uncorrected_usd=usd_s * estimate.seconds,
        price_usd_h=quote.price.usd_h,
        price_date=quote.price.date.isoformat(),
        price_source=quote.price.source,
        plan_usd={term: plans.get(term) for term in ("1y", "3y")},
        basis=estimate.basis,
        setup=estimate.setup,
        risks=_describe_time_risks(estimate, correction),
    )
    if market != "spot":
        yield on_demand
    if market == "spot" or (market is None and quote.spot_saving is not None):
        spot = _build_spot_option(on_demand, quote)
        if spot:
            yield spot


def _correct(estimate: Estimate, correction: Correction) -> tuple[float, float, float]:
    """Return the corrected time and both ends of its band, seconds.

    The band comes from the scatter of past jobs; if there are too few, from the estimate.
    """
    seconds, (low_factor, high_factor) = estimate.seconds * correction.factor, estimate.extrapolation
    low_s = seconds * correction.low * low_factor if correction.low else estimate.low_s * correction.factor
    high_s = seconds * correction.high * high_factor if correction.high else estimate.high_s * correction.factor
    return seconds, min(low_s, seconds), max(high_s, seconds)


def _describe_time_risks(estimate: Estimate, correction: Correction) -> tuple[str, ...]:
    """Return the known reasons why the time is uncertain, as texts."""
    texts = [estimate.risk]
    if estimate.scaled_from:
        texts.append(f"no past job on this type: the time is scaled from {estimate.scaled_from}")
    if estimate.basis == "formula" and not correction.jobs:
        texts.append("no past job of this model on this family: the time is an estimate")
    return tuple(filter(None, texts))


def _build_spot_option(option: Option, quote: Quote) -> Option | None:
    """Return the option on spot; None if interruptions are so frequent that the training would hardly progress.

    Args:
        option: the option on demand.
        quote: saving, interruptions and waits on spot.
    """
    run = None
    if quote.interruptions_per_h:
        try:
            run = _estimate_interrupted_run(option, quote.interruptions_per_h)
        except SpecError:
            return None
    # A training on demand saves checkpoints, too, so only lost work and restarts make a training on spot longer.
    time_factor = run.total_s / (run.work_s + run.saving_s) if run else 1.0
    waits = 1 + (run.interruptions if run else 0.0)
    factor = time_factor * (1 - (quote.spot_saving or 0.0))
    return replace(
        option,
        market="spot",
        seconds=option.seconds * time_factor,
        high_s=option.high_s * time_factor,
        wait_s=None if quote.spot_wait_s is None else quote.spot_wait_s * waits,
        cost_usd=option.cost_usd * factor,
        high_usd=option.high_usd * factor,
        uncorrected_usd=option.uncorrected_usd * factor,
        is_cost_known=quote.spot_saving is not None,
        plan_usd={},
        risks=(*option.risks, *_describe_spot_risks(option, quote)),
    )


def _describe_spot_risks(option: Option, quote: Quote) -> Iterable[str]:
    """Yield where the saving comes from, and how likely an interruption is; or that this is not known."""
    if quote.spot_saving is None:
        yield "the saving by spot is not known: the cost is that on demand, an upper limit"
    else:
        yield f"the saving of {quote.spot_saving:.0%} by spot comes from {quote.spot_source}"
    if quote.interruptions_per_h is None:
        yield "how often spot is interrupted is not known: each interruption makes the training longer"
    elif quote.interruptions_per_h > 0:
        chance = 1 - math.exp(-quote.interruptions_per_h * option.count * option.seconds / HOUR_S)
        yield f"at least one interruption with a probability of {chance:.0%}"
    else:
        yield f"there was no interruption in {quote.spot_h:.0f} h on spot, which does not exclude one"


def _estimate_interrupted_run(option: Option, interruptions_per_h: float) -> InterruptedRun:
    """Estimate a training with interruptions.

    Raises:
        SpecError: the training would hardly advance. A retry cannot help.
    """
    mean_time_s = compute_mean_time_s(interruptions_per_h, option.count)
    return estimate_interrupted_run(option.seconds, CHECKPOINT_S, SAVE_S, mean_time_s, RESTART_S)
