"""Define the options that the commands of `calculate` share, and parse their values."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from pipelines.errors import SpecError
from pipelines.instances.accelerators import PEAK_FLOPS, find_peak_flops
from pipelines.planning.checkpoints import compute_interruptions_per_h
from pipelines.planning.confidence import Range
from pipelines.planning.models import MODELS, find_size
from pipelines.planning.sizes import MAX_PARAMETERS, DecoderSize, require_positive

ModelOption = Annotated[
    str, typer.Option("--model", metavar="NAME|FILE", help=f"A config.json of transformers, or {', '.join(MODELS)}.")
]
ParamsOption = Annotated[
    float | None, typer.Option("--params", help="Number of parameters, such as 7e9, in place of --model.")
]
SequenceOption = Annotated[int, typer.Option("--sequence", help="Tokens of a sequence.")]
BatchOption = Annotated[int, typer.Option("--batch", help="Sequences that a GPU computes at once.")]
GpuMemoryOption = Annotated[
    float | None, typer.Option("--gpu-gb", help="Memory of a GPU, GB. With it, the output says whether the model fits.")
]
ReserveOption = Annotated[
    float,
    typer.Option("--reserve-gb", help="Estimate of the part of --gpu-gb lost to CUDA and memory fragmentation, GB."),
]

RankOption = Annotated[int, typer.Option("--rank", help="Rank of LoRA on all linear layers; 0 to train all weights.")]
RecomputeOption = Annotated[bool, typer.Option("--recompute", help="Gradient checkpointing.")]
StageOption = Annotated[int, typer.Option("--stage", help="ZeRO stage, 0 (DDP) to 3 (FSDP).")]
RateOption = Annotated[
    str,
    typer.Option(
        "--interruptions-per-h", metavar="RANGE", help="Interruptions of an instance per hour: 0.01, or 0.001..0.01."
    ),
]
MonthShareOption = Annotated[
    str,
    typer.Option(
        "--month-share",
        metavar="RANGE",
        help="In place of --interruptions-per-h: share of instances that is interrupted in a month, as in the Spot "
        "Instance Advisor: 0.05..0.1.",
    ),
]
RestartOption = Annotated[float, typer.Option("--restart-s", help="Billed duration of a restart, seconds.")]
LIMITS_HINT = "Write 0.4, or 0.3..0.5."
"""Hint of an error: how to write a number or a range."""


def choose_model(model: str, params: float | None) -> tuple[DecoderSize | None, float]:
    """Return the dimensions of the model's layers (None with --params), and its number of parameters.

    Raises:
        SpecError: neither or both of the arguments are given, or the model is not known. A retry cannot help.
    """
    if bool(model) == (params is not None):
        raise SpecError("give either --model or --params.")
    if params is not None:
        require_positive("params", params, MAX_PARAMETERS)
        return None, params
    size = find_size(model)
    return size, float(size.parameters)


def choose_peak_flops(gpu: str, peak_tflops: float | None) -> float:
    """Return the peak throughput of a GPU in FLOP/s, from its name or from a value in TFLOP/s.

    Raises:
        SpecError: neither or both of the arguments are given, or the GPU is not known. A retry cannot help.
    """
    if bool(gpu) == (peak_tflops is not None):
        raise SpecError("give either --gpu or --peak-tflops.")
    if peak_tflops is not None:
        require_positive("peak_tflops", peak_tflops, 1e6)
        return peak_tflops * 1e12
    peak_flops = find_peak_flops(gpu)
    if peak_flops is None:
        raise SpecError(f"the GPU {gpu} is not known.", f"Give one of {', '.join(PEAK_FLOPS)}, or --peak-tflops.")
    return peak_flops


def parse_limits(option: str, text: str) -> Range:
    """Parse a finite number, or a range LOW..HIGH of such numbers.

    Raises:
        SpecError: the text is neither, or LOW is greater than HIGH. A retry cannot help.
    """
    low_text, separator, high_text = text.partition("..")
    try:
        low, high = float(low_text), float(high_text if separator else low_text)
    except ValueError:
        raise SpecError(f"{option} {text} is neither a number nor a range.", LIMITS_HINT) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SpecError(f"{option} {text} is not finite.", LIMITS_HINT)
    return Range(low, high)


def choose_interruptions(rate: str, month_share: str) -> Range:
    """Return the number of interruptions of an instance per hour, from --interruptions-per-h or --month-share.

    Raises:
        SpecError: neither or both of the options are given, or a number is out of its range. A retry cannot help.
    """
    if bool(rate) == bool(month_share):
        raise SpecError("give either --interruptions-per-h or --month-share.")
    if rate:
        per_h = parse_limits("--interruptions-per-h", rate)
    else:
        shares = parse_limits("--month-share", month_share)
        per_h = Range(compute_interruptions_per_h(shares.low), compute_interruptions_per_h(shares.high))
    require_positive("interruptions_per_h", per_h.low)
    return per_h
