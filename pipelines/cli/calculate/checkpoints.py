"""`python -m pipelines calculate checkpoints`: how often a training saves, and the overhead of other intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from pipelines.cli.calculate.inputs import (
    MonthShareOption,
    RateOption,
    RestartOption,
    choose_interruptions,
)
from pipelines.cli.calculate.output import Report, format_number
from pipelines.errors import SpecError
from pipelines.planning import checkpoints as saves
from pipelines.planning.confidence import Range, estimate_band
from pipelines.planning.memory import TrainingSetup
from pipelines.planning.sizes import require_positive


@dataclass(frozen=True, kw_only=True)
class CheckpointsRequest:
    """The options of the command. `prerequisites` maps an option to others: one of these must be given, too."""

    prerequisites: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "write_gb_s": ("params",),
        "precision": ("params",),
        "optimizer": ("params",),
    }
    save_s: Annotated[float | None, typer.Option(help="Seconds that the training pauses for a save.")] = None
    params: Annotated[float | None, typer.Option(help="Number of trained parameters, in place of --save-s.")] = None
    write_gb_s: Annotated[float | None, typer.Option(help="Throughput of the saves, GB/s, with --params.")] = None
    precision: Annotated[str, typer.Option(help="With --params: fp32, mixed or bf16.")] = "mixed"
    optimizer: Annotated[str, typer.Option(help="With --params: sgd, momentum, adam or adam8bit.")] = "adam"
    rate: RateOption = ""
    month_share: MonthShareOption = ""
    instances: Annotated[int, typer.Option(help="Number of instances. The job stops if one is interrupted.")] = 1
    work_h: Annotated[float, typer.Option(help="Hours of the training without interruptions.")] = 24
    restart_s: RestartOption = 300


def calculate_checkpoints(request: CheckpointsRequest) -> Report:
    """Calculate how often to save a checkpoint (Young, Daly), and the overhead of saving every 15 and 30 minutes.

    Example: python -m pipelines calculate checkpoints --save-s 60 --interruptions-per-h 0.05 --instances 4
    """
    report = Report("Checkpoints")
    save_s = _choose_save_s(report, request)
    interruptions_per_h = choose_interruptions(request.rate, request.month_share)
    require_positive("work_h", request.work_h, 1e6)
    mean_s = saves.compute_mean_time_s(interruptions_per_h.middle, request.instances)
    daly_s = saves.compute_daly_interval_s(save_s, mean_s)
    report.add("mean time between interruptions", mean_s / 3600, "h", "mean_time")
    report.add("Young's interval", saves.compute_young_interval_s(save_s, mean_s) / 60, "min", "young")
    report.add("Daly's interval", daly_s / 60, "min", "daly")
    best_overhead = _add_overhead(report, request, save_s, interruptions_per_h, "Daly's interval", daly_s)
    for interval_s in saves.COMMON_INTERVALS_S:
        name = f"{interval_s / 60:g} min"
        overhead = _add_overhead(report, request, save_s, interruptions_per_h, name, interval_s)
        report.notes.append(_compare(name, overhead, best_overhead))
    run = saves.estimate_interrupted_run(request.work_h * 3600, daly_s, save_s, mean_s, request.restart_s)
    report.add("time with Daly's interval", run.total_s / 3600, "h", "interrupted_time")
    report.add("interruptions", run.interruptions, unit="", formula="interruptions")
    if daly_s > request.work_h * 3600:
        report.notes.append("Daly's interval is longer than the training: no checkpoint is worth its time.")
    report.notes.append("A script that saves at SIGTERM loses less. The wait for new instances is not counted.")
    return report


def _choose_save_s(report: Report, request: CheckpointsRequest) -> float:
    """Return the seconds of a save: as given, or from the size of a checkpoint, which is added to the report."""
    if (request.save_s is None) == (request.params is None):
        raise SpecError("give either --save-s, or --params and --write-gb-s.")
    if request.save_s is not None:
        return request.save_s
    if request.params is None or request.write_gb_s is None:
        raise SpecError("--params needs --write-gb-s, the throughput of the saves.")
    setup = TrainingSetup(request.precision, optimizer=request.optimizer)
    checkpoint_bytes = saves.compute_checkpoint_bytes(request.params, setup)
    save_s = saves.estimate_save_s(checkpoint_bytes, request.write_gb_s)
    report.add("checkpoint", checkpoint_bytes / 1e9, "GB", "checkpoint")
    report.add("save", save_s, "s", "save")
    return save_s


def _add_overhead(
    report: Report, request: CheckpointsRequest, save_s: float, interruptions_per_h: Range, name: str, interval_s: float
) -> float:
    """Return the overhead of saves at an interval. Add it to the report, with a band if interruptions are a range."""

    def compute(interruptions_per_h: float) -> float:
        mean_s = saves.compute_mean_time_s(interruptions_per_h, request.instances)
        run = saves.estimate_interrupted_run(request.work_h * 3600, interval_s, save_s, mean_s, request.restart_s)
        return run.overhead

    band = (
        estimate_band(compute, {"interruptions_per_h": interruptions_per_h})
        if interruptions_per_h.low < interruptions_per_h.high
        else None
    )
    overhead = compute(interruptions_per_h.middle)
    report.add(f"overhead of {name}", overhead, "share of the work", "overhead", band)
    return overhead


def _compare(name: str, overhead: float, best_overhead: float) -> str:
    """Return the sentence that compares the overhead of the interval `name` with that of Daly's interval."""
    difference = 100 * (overhead - best_overhead)
    if difference < 0.05:
        return f"Saving every {name} costs no more than at Daly's interval, within 0.05 % of the work."
    return f"Saving every {name} costs {format_number(difference)} % of the work more than at Daly's interval."
