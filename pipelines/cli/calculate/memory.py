"""`python -m pipelines calculate memory`: memory of a GPU for a training, the largest batch, and what makes it fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from pipelines.cli.calculate.fit import describe_changes, describe_fit
from pipelines.cli.calculate.inputs import (
    BatchOption,
    GpuMemoryOption,
    ModelOption,
    ParamsOption,
    RankOption,
    RecomputeOption,
    ReserveOption,
    SequenceOption,
    StageOption,
    choose_model,
)
from pipelines.cli.calculate.output import Report
from pipelines.errors import SpecError
from pipelines.planning.batch_limits import (
    RESERVE_GB,
    compute_available_gb,
    find_training_batch,
    list_training_changes,
)
from pipelines.planning.memory import TrainingMemory, TrainingSetup, estimate_states, estimate_training
from pipelines.planning.sizes import DecoderSize

STATES = ("weights", "gradients", "optimizer")
"""Fields of `TrainingMemory` that `estimate_states` computes."""
PARTS = (*STATES, "activations", "working", "gathered")
"""Fields of `TrainingMemory` whose sum is the total."""


@dataclass(frozen=True, kw_only=True)
class MemoryRequest:
    """The options of the command. `prerequisites` maps an option to others: one of these must be given, too."""

    prerequisites: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sequence": ("model",),
        "batch": ("model",),
        "recompute": ("model",),
        "reserve_gb": ("gpu_gb",),
        "stage": ("gpus",),
        "gpus": (
            "stage",
            "gpu_gb",
        ),
    }
    model: ModelOption = ""
    params: ParamsOption = None
    sequence: SequenceOption = 2048
    batch: BatchOption = 1
    precision: Annotated[
        str, typer.Option(help="Precision of the trained weights: fp32, mixed or bf16. Computations use 16 bits.")
    ] = "mixed"
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam or adam8bit.")] = "adam"
    rank: RankOption = 0
    recompute: RecomputeOption = False
    stage: StageOption = 0
    gpus: Annotated[int, typer.Option(help="GPUs of all instances.")] = 1
    gpu_gb: GpuMemoryOption = None
    reserve_gb: ReserveOption = RESERVE_GB


def calculate_memory(request: MemoryRequest) -> Report:
    """Calculate the memory of a GPU that a training needs: weights, gradients, optimizer and activations.

    With --params, activations are not counted.

    Example: python -m pipelines calculate memory --model llama-3-8b --recompute --stage 3 --gpus 8 --gpu-gb 24
    """
    size, parameters = choose_model(request.model, request.params)
    setup = TrainingSetup(
        request.precision,
        optimizer=request.optimizer,
        rank=request.rank,
        is_recomputed=request.recompute,
        stage=request.stage,
        devices=request.gpus,
    )
    if size:
        return _describe_training(size, setup, request)
    if setup.rank:
        raise SpecError("LoRA needs the layers of the model.", "Give --model in place of --params.")
    memory = estimate_states(parameters, setup)
    report = _list_parts(memory, STATES)
    report.notes.append("Activations are not counted: give --model.")
    if request.gpu_gb is not None:
        available_gb = compute_available_gb(request.gpu_gb, request.reserve_gb)
        report.notes.append(describe_fit(memory.total / 1e9, available_gb, "Weights, gradients and optimizer states"))
    return report


def _describe_training(size: DecoderSize, setup: TrainingSetup, request: MemoryRequest) -> Report:
    memory = estimate_training(size, request.sequence, request.batch, setup)
    report = _list_parts(memory, PARTS)
    if request.gpu_gb is None:
        return report
    available_gb = compute_available_gb(request.gpu_gb, request.reserve_gb)
    largest_batch = find_training_batch(size, request.sequence, setup, request.gpu_gb, request.reserve_gb)
    report.add("largest batch of a GPU", largest_batch, "sequences", "largest_batch")
    changes = list_training_changes(size, request.sequence, request.batch, setup, available_gb)
    report.notes += describe_changes(memory.total / 1e9, available_gb, changes)
    return report


def _list_parts(memory: TrainingMemory, names: tuple[str, ...]) -> Report:
    report = Report("Memory of a GPU")
    for name in names:
        report.add(name, getattr(memory, name) / 1e9, "GB", name)
    report.add("total", memory.total / 1e9, "GB", "training_memory")
    return report
