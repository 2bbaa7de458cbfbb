"""`python -m pipelines calculate inference`: the memory of a GPU that a language model's inference needs."""

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
    ReserveOption,
    SequenceOption,
    choose_model,
)
from pipelines.cli.calculate.output import Report
from pipelines.planning.batch_limits import RESERVE_GB, compute_available_gb, find_serving_batch, list_serving_changes
from pipelines.planning.inference_memory import InferenceSetup, estimate_inference, estimate_token_cache
from pipelines.planning.memory import estimate_weights
from pipelines.planning.sizes import DecoderSize


@dataclass(frozen=True, kw_only=True)
class InferenceRequest:
    """The options of the command. `prerequisites` maps an option to others: one of these must be given, too."""

    prerequisites: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sequence": ("model",),
        "batch": ("model",),
        "cache": ("model",),
        "prefill": ("model",),
        "reserve_gb": ("gpu_gb",),
    }
    model: ModelOption = ""
    params: ParamsOption = None
    sequence: SequenceOption = 4096
    batch: BatchOption = 1
    precision: Annotated[str, typer.Option(help="Precision of the weights: fp32, bf16, fp16, int8 or int4.")] = "bf16"
    cache: Annotated[str, typer.Option(help="Precision of the KV cache; same choices as --precision.")] = "bf16"
    gpus: Annotated[int, typer.Option(help="GPUs that share the model (tensor parallelism).")] = 1
    prefill: Annotated[
        int, typer.Option(help="Tokens of prompts that are computed at once (chunked prefill); 0: a whole sequence.")
    ] = 0
    gpu_gb: GpuMemoryOption = None
    reserve_gb: ReserveOption = RESERVE_GB


def calculate_inference(request: InferenceRequest) -> Report:
    """Calculate the memory of a GPU that the inference of a language model needs: weights, KV cache and activations.

    With --params, only weights are counted.

    Example: python -m pipelines calculate inference --model llama-3-70b --precision int8 --gpus 2 --gpu-gb 80
    """
    size, parameters = choose_model(request.model, request.params)
    serving = InferenceSetup(request.precision, request.cache, devices=request.gpus, prefill=request.prefill)
    if size:
        return _describe_inference(size, serving, request)
    report = Report("Memory of a GPU", notes=["The KV cache and activations are not counted: give --model."])
    weights_gb = estimate_weights(parameters, request.precision) / request.gpus / 1e9
    report.add("weights", weights_gb, "GB", "serving_weights")
    if request.gpu_gb is not None:
        available_gb = compute_available_gb(request.gpu_gb, request.reserve_gb)
        report.notes.append(describe_fit(weights_gb, available_gb, "The weights"))
    return report


def _describe_inference(size: DecoderSize, serving: InferenceSetup, request: InferenceRequest) -> Report:
    memory = estimate_inference(size, request.sequence, request.batch, serving)
    report = Report("Memory of a GPU")
    report.add("weights", memory.weights / 1e9, "GB", "serving_weights")
    report.add(
        "KV cache of a token", estimate_token_cache(size, serving.cache, serving.devices), "bytes", "token_cache"
    )
    report.add("KV cache", memory.cache / 1e9, "GB", "cache")
    report.add("activations", memory.activations / 1e9, "GB", "serving_activations")
    report.add("total", memory.total / 1e9, "GB", "serving_memory")
    if request.gpu_gb is None:
        return report
    available_gb = compute_available_gb(request.gpu_gb, request.reserve_gb)
    largest_batch = find_serving_batch(size, request.sequence, serving, request.gpu_gb, request.reserve_gb)
    report.add("largest batch", largest_batch, "sequences", "largest_batch")
    changes = list_serving_changes(size, request.sequence, request.batch, serving, available_gb)
    report.notes += describe_changes(memory.total / 1e9, available_gb, changes)
    return report
