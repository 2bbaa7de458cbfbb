"""Fine-tune a small Llama, and compare memory and time with what the planner estimates.

The model has random weights. It is trained with AdamW, as a whole and with LoRA, with and without gradient
checkpointing. On a GPU, the peak of memory is that of torch's allocator, and the time is wall-clock time. On a CPU, the
peak is that of torch's profiler, which sees each tensor of a step, and the time is CPU time of one thread, so that
other work on the machine matters less. The activations are the tensors that autograd keeps for the backward pass,
without weights and logits.

The peak FLOP/s of the machine are those of a multiplication of large fp32 matrices, measured in the same way. So the
utilization is the FLOP/s of a step as a share of the FLOP/s of this multiplication.

LEEWAY_BENCH_LAYERS, LEEWAY_BENCH_HIDDEN and LEEWAY_BENCH_STEPS change the size.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pipelines.planning.memory import TrainingMemory, TrainingSetup, estimate_training
from pipelines.planning.sizes import DecoderSize
from pipelines.planning.training_time import count_attention_flops, count_token_flops, estimate_training_s

HIDDEN = int(os.environ.get("LEEWAY_BENCH_HIDDEN", "256"))
SIZE = DecoderSize(
    layers=int(os.environ.get("LEEWAY_BENCH_LAYERS", "6")),
    hidden=HIDDEN,
    intermediate=HIDDEN * 8 // 3,
    heads=4,
    key_heads=2,
    vocabulary=4_096,
)
SEQUENCE, BATCH, RANK = 256, 4, 16
TOKENS = SEQUENCE * BATCH
STEPS = int(os.environ.get("LEEWAY_BENCH_STEPS", "5"))
"""Number of steps whose time is measured. One step before them is not measured."""
MIB = 2**20


@dataclass(frozen=True)
class Measurement:
    """What was measured with one setup of the training.

    Attributes:
        parts: bytes of the tensors of each part: "weights", "gradients", "optimizer" and "activations".
        peak_bytes: largest number of bytes of all tensors at one moment of a step.
        step_s: seconds of each step.
    """

    parts: Mapping[str, int]
    peak_bytes: int
    step_s: list[float]


def run() -> dict[str, Any] | None:
    """Return the seconds of the steps, and the memory beside its estimates as facts; None without the libraries."""
    try:
        import peft
        import torch
        import transformers
    except ImportError as error:
        sys.stderr.write(f"language_model: skipped ({error}): pip install 'leeway[language]'\n")
        return None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        torch.set_num_threads(1)
    peak_flops = measure_peak_flops(device)
    seconds: dict[str, list[float]] = {}
    facts: dict[str, Any] = {
        "parameters": SIZE.parameters,
        "parameters of LoRA": SIZE.count_lora_parameters(RANK),
        "tokens of a step": TOKENS,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch, transformers, peft": f"{torch.__version__}, {transformers.__version__}, {peft.__version__}",
        "GFLOP/s of a multiplication of matrices": round(peak_flops / 1e9, 1),
    }
    for rank, is_recomputed in product((0, RANK), (False, True)):
        setup = TrainingSetup("fp32", "fp32", rank=rank, is_recomputed=is_recomputed)
        row = f"{'LoRA' if rank else 'full'}, {'gradient checkpointing' if is_recomputed else 'activations kept'}"
        measurement = measure(setup, device)
        seconds[row] = measurement.step_s
        facts |= compare_memory(row, measurement, estimate_training(SIZE, SEQUENCE, BATCH, setup))
        facts |= compare_time(row, statistics.median(measurement.step_s), peak_flops, setup)
    return {"seconds": seconds, "facts": facts}


def compare_memory(row: str, measurement: Measurement, estimate: TrainingMemory) -> dict[str, float]:
    """Return measured and estimated MiB of each part and of the peak, and the peak's ratio."""
    facts = {}
    sizes = {name: (size_bytes, getattr(estimate, name)) for name, size_bytes in measurement.parts.items()}
    sizes["peak"] = measurement.peak_bytes, estimate.peak_bytes
    for name, (measured_bytes, estimated_bytes) in sizes.items():
        facts[f"{row}: {name}, measured MiB"] = round(measured_bytes / MIB, 2)
        facts[f"{row}: {name}, estimated MiB"] = round(estimated_bytes / MIB, 2)
    facts[f"{row}: estimated peak / measured peak"] = round(estimate.peak_bytes / measurement.peak_bytes, 3)
    return facts


def compare_time(row: str, step_s: float, peak_flops: float, setup: TrainingSetup) -> dict[str, float]:
    """Return GFLOP of a step, its seconds at the machine's peak FLOP/s, and the utilization (share of this peak)."""
    token_flops = count_token_flops(
        SIZE.parameters - SIZE.vocabulary * SIZE.hidden,  # the embeddings are looked up, not multiplied
        is_recomputed=setup.is_recomputed,
        is_lora=bool(setup.rank),
        attention=count_attention_flops(SIZE, SEQUENCE),
    )
    peak_s = estimate_training_s(token_flops * TOKENS, peak_flops, utilization=1)
    return {
        f"{row}: GFLOP of a step": round(token_flops * TOKENS / 1e9, 1),
        f"{row}: seconds at the machine's peak": round(peak_s, 3),
        f"{row}: utilization": round(peak_s / step_s, 3),
    }


def measure_peak_flops(device: Any) -> float:
    """Return the FLOP/s of the fastest of five multiplications of fp32 matrices."""
    import torch

    width = 2_048 if device.type == "cpu" else 8_192
    matrix, durations_s = torch.randn(width, width, device=device), []
    for _ in range(6):
        durations_s.append(time_call(lambda: matrix @ matrix, device))
    return 2 * width**3 / min(durations_s[1:])


def time_call(call: Callable[[], object], device: Any) -> float:
    """Return the seconds of a call: on a GPU until it has computed, on a CPU the CPU time."""
    import torch

    read_clock = time.perf_counter if device.type == "cuda" else time.process_time
    start_s = read_clock()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return read_clock() - start_s


def measure(setup: TrainingSetup, device: Any) -> Measurement:
    """Train the model for some steps with this setup, and measure tensors, peak and time."""
    gc.collect()
    model, optimizer, step = prepare(setup, device)
    time_call(step, device)  # the first step creates the optimizer's states
    step_s = [time_call(step, device) for _ in range(STEPS)]
    activations = measure_activations(model, step)
    parts = {
        "weights": sum(weight.nbytes for weight in model.parameters()),
        "gradients": sum(weight.nbytes for weight in model.parameters() if weight.requires_grad),
        "optimizer": sum(value.nbytes for state in optimizer.state.values() for value in state.values() if value.dim()),
        "activations": activations,
    }
    return Measurement(parts, measure_peak(model, optimizer, step, device), step_s)


def prepare(setup: TrainingSetup, device: Any) -> tuple[Any, Any, Callable[[], None]]:
    """Return the model, its optimizer, and the function that makes a step, as the language template does."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    from pipelines.container.torch.language.adapters import add_adapter
    from pipelines.container.torch.language.hyperparameters import Hyperparameters

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=SIZE.hidden,
        intermediate_size=SIZE.intermediate,
        num_hidden_layers=SIZE.layers,
        num_attention_heads=SIZE.heads,
        num_key_value_heads=SIZE.key_heads,
        vocab_size=SIZE.vocabulary,
    )
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").train()
    if setup.is_recomputed:
        model.activation_checkpointing_enable({"use_reentrant": False})
    if setup.rank:
        model = add_adapter(model, Hyperparameters(lora_rank=setup.rank))
    model.to(device)
    optimizer = torch.optim.AdamW(
        [weight for weight in model.parameters() if weight.requires_grad], lr=1e-4, fused=True
    )
    tokens = torch.randint(SIZE.vocabulary, (BATCH, SEQUENCE), device=device)
    # Two documents in each sequence, as in a packed one.
    positions = torch.cat([torch.arange(SEQUENCE // 2, device=device)] * 2).expand(BATCH, -1)

    def compute_loss() -> Any:
        logits = model(input_ids=tokens, position_ids=positions, use_cache=False).logits.float().flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, tokens.flatten(), reduction="sum")

    def step() -> None:
        compute_loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, optimizer, step


def measure_activations(model: Any, step: Callable[[], None]) -> int:
    """Return the bytes of the tensors that autograd keeps in a step, except weights and the logits of the loss."""
    import torch

    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    bytes_by_storage: dict[int, int] = {}
    saved_tensors: list[Any] = []  # keeps the tensors alive, because the address of a freed tensor can be used again

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        is_logits = tensor.numel() == TOKENS * SIZE.vocabulary
        if storage.data_ptr() not in weights and not is_logits:
            bytes_by_storage[storage.data_ptr()] = storage.nbytes()
            saved_tensors.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        step()
    return sum(bytes_by_storage.values())


def measure_peak(model: Any, optimizer: Any, step: Callable[[], None], device: Any) -> int:
    """Return the largest number of bytes of all tensors at one moment of a step."""
    import torch

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        step()
        return int(torch.cuda.max_memory_allocated())
    parameters = [weight.nbytes for weight in model.parameters()]
    states = [value.nbytes for state in optimizer.state.values() for value in state.values()]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text(encoding="utf-8"))["traceEvents"]
    # The profiler counts what is allocated while it runs: weights and states were there before.
    allocated_bytes = max(event["args"]["Total Allocated"] for event in events if event["name"] == "[memory]")
    return int(sum(parameters) + sum(states) + allocated_bytes)
