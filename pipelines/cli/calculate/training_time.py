"""`python -m pipelines calculate time`: time and cost of a training, on demand, on spot and with a savings plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import typer

from pipelines.cli.calculate.inputs import (
    ModelOption,
    MonthShareOption,
    ParamsOption,
    RankOption,
    RateOption,
    RecomputeOption,
    RestartOption,
    StageOption,
    choose_interruptions,
    choose_model,
    choose_peak_flops,
    parse_limits,
)
from pipelines.cli.calculate.output import Report
from pipelines.errors import SpecError
from pipelines.planning import training_cost as costs
from pipelines.planning.checkpoints import (
    compute_checkpoint_bytes,
    compute_daly_interval_s,
    compute_mean_time_s,
    estimate_save_s,
)
from pipelines.planning.confidence import SAMPLES, Range, estimate_band
from pipelines.planning.sizes import (
    MAX_S,
    require_at_least_one,
    require_choice,
    require_not_negative,
    require_positive,
    require_share,
)
from pipelines.planning.step_time import BACKWARD_SHARE, NETWORK_SHARE, PASSES, StepTime, compute_needed_bandwidth_gb_s
from pipelines.planning.training_time import count_attention_flops, count_token_flops

BAND_NOTE = (
    f"A band contains 90 % of the results of {SAMPLES} samples with a fixed seed. A sample draws a value from each "
    "range, uniformly and independently. The extremes are the smallest and largest results at the ends of the ranges. "
    "Neither the band nor the extremes show the error of the formulas."
)
GRADIENT_BYTES = 2
"""Bytes of a gradient on the network: 16-bit values."""


@dataclass(frozen=True, kw_only=True)
class TimeRequest:
    """The options of the command. `prerequisites` maps an option to others: one of these must be given, too."""

    prerequisites: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "network_gbit": ("instances",),
        "network_share": ("network_gbit",),
        "stage": ("instances",),
        "overlap": ("instances",),
        "save_s": ("interval_s", "spot_usd_per_h"),
        "restart_s": ("spot_usd_per_h",),
        "wait_s": ("spot_usd_per_h",),
    }
    replaced_by: ClassVar[Mapping[str, str]] = {"save_s": "write_gb_s"}
    tokens: Annotated[float, typer.Option(help="Tokens of the whole training, all epochs.")]
    model: ModelOption = ""
    params: ParamsOption = None
    sequence: Annotated[int, typer.Option(help="Tokens of a sequence, to count attention; 0: not counted.")] = 0
    rank: RankOption = 0
    recompute: RecomputeOption = False
    instances: Annotated[int, typer.Option(help="Number of instances.")] = 1
    gpus: Annotated[int, typer.Option(help="GPUs of an instance.")] = 1
    gpu: Annotated[str, typer.Option(help="Name of the GPU, such as A100, whose 16-bit peak is used.")] = ""
    peak_tflops: Annotated[
        float | None, typer.Option(help="Peak in the precision of the training, TFLOP/s, in place of --gpu.")
    ] = None
    mfu: Annotated[
        str, typer.Option(metavar="RANGE", help="Model FLOPs utilization of one instance: 0.4, or 0.3..0.5.")
    ] = "0.3..0.5"
    network_gbit: Annotated[float, typer.Option(help="Network bandwidth of an instance, Gbit/s; 0: not counted.")] = 0
    network_share: Annotated[
        float, typer.Option(help="Share of the bandwidth that an all-reduce reaches; a guess.")
    ] = NETWORK_SHARE
    batch_tokens: Annotated[float, typer.Option(help="Tokens of a step on all GPUs together.")] = 1e6
    stage: StageOption = 0
    overlap: Annotated[
        float,
        typer.Option(help="Share of the computation during which the network sends. With 0, the two times add up."),
    ] = BACKWARD_SHARE
    usd_per_h: Annotated[float | None, typer.Option(help="Price of an instance on demand, USD an hour.")] = None
    spot_usd_per_h: Annotated[
        float | None, typer.Option(help="Price on spot, USD an hour. Needs --interruptions-per-h or --month-share.")
    ] = None
    rate: RateOption = ""
    month_share: MonthShareOption = ""
    save_s: Annotated[float, typer.Option(help="Seconds that the training pauses for a save.")] = 60
    write_gb_s: Annotated[
        float | None, typer.Option(help="In place of --save-s: throughput of saving weights and Adam's states, GB/s.")
    ] = None
    interval_s: Annotated[
        float | None, typer.Option(help="Seconds of training between two saves (default: Daly's optimum).")
    ] = None
    restart_s: RestartOption = 300
    wait_s: Annotated[float, typer.Option(help="Seconds from an interruption to new instances; not charged.")] = 600
    saving: Annotated[float | None, typer.Option(help="Discount of a savings plan: 0.3 is 30 %.")] = None


@dataclass(frozen=True)
class _Training:
    """A training. Its methods compute its time from the model FLOPs utilization (MFU).

    Attributes:
        steps: number of steps.
        compute_step: function that returns the time of a step, given the MFU.
        save_s: seconds that the training pauses for a save.
        save_share: `save_s` as a share of --interval-s; 0 without this option.
    """

    steps: float
    compute_step: Callable[[float], StepTime]
    save_s: float
    save_share: float

    def compute_hours(self, mfu: float) -> float:
        """Return the hours without saves and interruptions."""
        return self.steps * self.compute_step(mfu).total_s / 3600

    def compute_hours_with_saves(self, mfu: float) -> float:
        """Return the hours with a save after each --interval-s, without interruptions."""
        return self.compute_hours(mfu) * (1 + self.save_share)


def calculate_time(request: TimeRequest) -> Report:
    """Calculate how long a training takes, and what it costs on demand, on spot and with a savings plan.

    Operations, all-reduce, checkpoints and interruptions are counted. A figure that depends on the range of --mfu or of
    the interruptions has a band.

    Example: python -m pipelines calculate time --params 7e9 --tokens 1e9 --instances 2 --gpus 8 --gpu A100
    --network-gbit 400 --usd-per-h 32.77 --spot-usd-per-h 12 --month-share 0.05..0.1
    """
    report = Report("Time and cost of a training")
    mfu = parse_limits("--mfu", request.mfu)
    for limit in (mfu.low, mfu.high):
        require_share("mfu", limit, is_zero_allowed=False)
    require_choice("stage", request.stage, PASSES)
    training = _build_training(report, request, mfu)
    hours = _add_band(report, "time without interruptions", "h", "work", training.compute_hours, mfu=mfu)
    if training.save_share:
        hours = _add_band(report, "time with saves", "h", "time_with_saves", training.compute_hours_with_saves, mfu=mfu)
    on_demand_usd = None
    if request.usd_per_h is not None:
        on_demand_usd = costs.compute_cost_usd(hours, request.instances, request.usd_per_h)
        compute_usd = _scale(training.compute_hours_with_saves, on_demand_usd / hours)
        _add_band(report, "cost on demand", "USD", "on_demand_usd", compute_usd, mfu=mfu)
    if request.saving is not None:
        if on_demand_usd is None:
            raise SpecError("--saving needs --usd-per-h, the price on demand.")
        plan_usd = costs.compute_savings_plan_usd(on_demand_usd, request.saving)
        compute_usd = _scale(training.compute_hours_with_saves, plan_usd / hours)
        _add_band(report, "cost with the savings plan", "USD", "savings_plan_usd", compute_usd, mfu=mfu)
        break_even_use = costs.compute_break_even_use(request.saving)
        name = "smallest utilization at which the savings plan is cheaper"
        report.add(name, break_even_use, "share", "break_even_use")
    if request.spot_usd_per_h is not None:
        _add_spot(report, request, training, mfu, request.spot_usd_per_h, on_demand_usd)
    elif request.rate or request.month_share:
        raise SpecError("interruptions need --spot-usd-per-h, the price on spot.")
    if any(figure.band for figure in report.figures):
        report.notes.append(BAND_NOTE)
    return report


def _build_training(report: Report, request: TimeRequest, mfu: Range) -> _Training:
    """Return the training. Add its operations, and the computation and communication of a step, to the report."""
    for name, value in {"tokens": request.tokens, "batch_tokens": request.batch_tokens}.items():
        require_at_least_one(name, value, 1e15)
    require_not_negative("network_gbit", request.network_gbit, 1e6)
    require_share("network_share", request.network_share, is_zero_allowed=False)
    size, parameters = choose_model(request.model, request.params)
    if request.rank and not size:
        raise SpecError("LoRA needs the layers of the model.", "Give --model in place of --params.")
    if request.sequence and not size:
        raise SpecError("--sequence needs --model, whose attention it is for.")
    attention = count_attention_flops(size, request.sequence) if size and request.sequence else 0.0
    is_lora = bool(request.rank)
    token_flops = count_token_flops(parameters, is_recomputed=request.recompute, is_lora=is_lora, attention=attention)
    trained_parameters = size.count_lora_parameters(request.rank) if size and is_lora else parameters
    peak_flops = choose_peak_flops(request.gpu, request.peak_tflops)
    network_gb_s = request.network_gbit * request.network_share / 8
    cluster = costs.Cluster(request.instances, request.gpus, peak_flops, network_gb_s)
    step_flops = token_flops * min(request.batch_tokens, request.tokens)

    def compute_step(mfu: float) -> StepTime:
        return costs.estimate_step_of_training(
            step_flops, cluster, mfu, GRADIENT_BYTES * trained_parameters, stage=request.stage, overlap=request.overlap
        )

    report.add("operations", token_flops * request.tokens, "FLOP", "flops")
    save_s = _choose_save_s(report, request, trained_parameters)
    save_share = save_s / request.interval_s if request.interval_s else 0.0
    training = _Training(token_flops * request.tokens / step_flops, compute_step, save_s, save_share)
    _add_steps(report, request, training, mfu, GRADIENT_BYTES * trained_parameters)
    return training


def _choose_save_s(report: Report, request: TimeRequest, trained_parameters: float) -> float:
    """Return the seconds of a save, as given or computed. If they are computed, add them to the report."""
    if request.interval_s is not None:
        require_positive("interval_s", request.interval_s, MAX_S)
    if request.write_gb_s is None:
        require_positive("save_s", request.save_s, MAX_S)
        return request.save_s
    checkpoint_bytes = compute_checkpoint_bytes(trained_parameters)
    save_s = estimate_save_s(checkpoint_bytes, request.write_gb_s)
    report.add("checkpoint", checkpoint_bytes / 1e9, "GB", "checkpoint")
    report.add("save", save_s, "s", "save")
    return save_s


def _add_steps(report: Report, request: TimeRequest, training: _Training, mfu: Range, gradient_bytes: float) -> None:
    """Add the computation of a step to the report; if there are several instances, also its communication."""
    compute_step = training.compute_step
    step = compute_step(mfu.middle)
    _add_band(report, "computation of a step", "s", "computation", lambda mfu: compute_step(mfu).computation_s, mfu=mfu)
    if request.instances == 1:
        return
    report.add("communication of a step", step.communication_s, "s", "communication")
    _add_band(report, "step", "s", "step", lambda mfu: compute_step(mfu).total_s, mfu=mfu)
    _add_band(report, "scaling efficiency", "share", "efficiency", lambda mfu: compute_step(mfu).efficiency, mfu=mfu)
    needed_gb_s = compute_needed_bandwidth_gb_s(
        gradient_bytes, request.instances, step.computation_s, overlap=request.overlap, stage=request.stage
    )
    report.add("network for an efficiency of 0.9", 8 * needed_gb_s, "Gbit/s", "needed_bandwidth")
    if not request.network_gbit:
        report.notes.append("The network is not counted: give --network-gbit.")


def _add_spot(
    report: Report,
    request: TimeRequest,
    training: _Training,
    mfu: Range,
    spot_usd_per_h: float,
    on_demand_usd: float | None,
) -> None:
    """Add the time and cost on spot, and the time lost to interruptions, to the report."""
    per_h = choose_interruptions(request.rate, request.month_share)
    mean_s = compute_mean_time_s(per_h.middle, request.instances)
    interval_s = request.interval_s
    if interval_s is None:
        interval_s = compute_daly_interval_s(training.save_s, mean_s)
        report.add("interval of the saves", interval_s / 60, "min", "daly")
    interruptions = costs.Interruptions(per_h.middle, interval_s, training.save_s, request.restart_s, request.wait_s)

    def compute(mfu: float, per_h: float) -> costs.SpotCost:
        work_s = training.compute_hours(mfu) * 3600
        return costs.estimate_spot_cost(work_s, request.instances, spot_usd_per_h, replace(interruptions, per_h=per_h))

    readers: dict[str, tuple[str, str, Callable[[costs.SpotCost], float]]] = {
        "interruptions on spot": ("", "interruptions", lambda spot: spot.run.interruptions),
        "lost to interruptions": ("h", "lost", lambda spot: spot.run.lost_s / 3600),
        "time on spot": ("h", "elapsed", lambda spot: spot.elapsed_s / 3600),
        "cost on spot": ("USD", "spot_usd", lambda spot: spot.cost_usd),
    }
    for name, (unit, formula, read) in readers.items():
        _add_band(report, name, unit, formula, _read_spot(read, compute), mfu=mfu, per_h=per_h)
    if on_demand_usd is not None:
        saving = 1 - compute(mfu.middle, per_h.middle).cost_usd / on_demand_usd
        report.notes.append(
            f"Spot saves {100 * saving:.0f} %." if saving > 0 else f"Spot costs {-100 * saving:.0f} % more."
        )


def _add_band(
    report: Report, name: str, unit: str, formula: str, compute: Callable[..., float], **ranges: Range
) -> float:
    """Add a figure for the middle of its ranges to the report, with its band if a range has two different ends.

    Return the figure's value.
    """
    value = compute(**{key: limits.middle for key, limits in ranges.items()})
    has_one_value = all(limits.low == limits.high for limits in ranges.values())
    report.add(name, value, unit, formula, None if has_one_value else estimate_band(compute, ranges))
    return value


def _read_spot(
    read: Callable[[costs.SpotCost], float], compute: Callable[[float, float], costs.SpotCost]
) -> Callable[..., float]:
    """Return a function that computes the costs on spot and reads one figure of them."""
    return lambda mfu, per_h: read(compute(mfu, per_h))


def _scale(compute: Callable[[float], float], factor: float) -> Callable[..., float]:
    return lambda mfu: factor * compute(mfu)
