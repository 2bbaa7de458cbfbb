"""Estimate the memory of a training by its parts, in bytes for each device. Each formula names its source.

GB in the sources are 10^9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipelines.planning.sizes import (
    LINEAR_LAYERS,
    MAX_DEVICES,
    MAX_DIMENSION,
    MAX_PARAMETERS,
    DecoderSize,
    require_choice,
    require_positive,
)

BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
"""Bytes of a value by precision."""
STATES: dict[str, tuple[float, float, float]] = {"fp32": (4, 4, 0), "mixed": (2, 2, 4), "bf16": (2, 2, 0)}
"""Maps each precision of a training to the bytes of a parameter: its weight, its gradient, and the optimizer's fp32
copy of it.

`mixed` is the mixed precision of Micikevicius et al. 2018, with the bytes that the ZeRO paper gives. torch's autocast,
and FSDP with a MixedPrecisionPolicy, store as `fp32` does, and compute in bf16. With Adam, `mixed` and `fp32` both have
16 bytes for each parameter."""
BLOCK = 256
"""Parameters that share the scale of a quantized optimizer (bitsandbytes; 2,048 in Dettmers et al. 2022)."""
OPTIMIZERS = {"sgd": 0.0, "momentum": 4.0, "adam": 8.0, "adam8bit": 2 * (1 + 4 / BLOCK)}
"""Maps each optimizer to the bytes of its states for a parameter."""
GATHERED_LAYERS = 2
"""Number of layers whose whole weights FSDP gathers at the same time: the one that is computed, and the next one."""
LOSS_COPIES = 3
"""fp32 copies of the logits at the start of the backward pass: log-softmax, its gradient, and the logits' gradient."""


@dataclass(frozen=True)
class TrainingSetup:
    """The settings of a training that decide its memory.

    Attributes:
        precision: precision of the weights that are trained, one of `STATES`.
        computation: precision of the computation and of frozen weights, one of `BYTES`.
        optimizer: one of `OPTIMIZERS`.
        rank: rank of LoRA on all linear layers; 0 if all weights are trained.
        is_recomputed: whether activations are computed again (gradient checkpointing).
        is_packed: whether several documents share a sequence, which needs a mask.
        stage: ZeRO stage: 0 (each device has everything, as with DDP) to 3 (FSDP).
        devices: number of devices.

    Raises:
        SpecError: a name is unknown, or a number is out of its range.
    """

    precision: str = "mixed"
    computation: str = "bf16"
    optimizer: str = "adam"
    rank: int = 0
    is_recomputed: bool = False
    is_packed: bool = True
    stage: int = 0
    devices: int = 1

    def __post_init__(self) -> None:
        """Check names and numbers."""
        require_choice("precision", self.precision, STATES)
        require_choice("computation", self.computation, BYTES)
        require_choice("optimizer", self.optimizer, OPTIMIZERS)
        require_choice("stage", self.stage, range(4))
        require_positive("devices", self.devices, MAX_DEVICES)
        if self.rank:
            require_positive("rank", self.rank, MAX_DIMENSION)


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of a training on one device, by part.

    Attributes:
        weights: weights, trained and frozen.
        gradients: gradients of the weights that are trained.
        optimizer: the optimizer's states, and its fp32 copy of the weights in mixed precision.
        activations: values that the forward pass stores for the backward pass.
        working: the largest temporary values: the logits with their gradients, or a layer that is computed again.
        gathered: whole layers that FSDP holds temporarily.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float = 0.0
    working: float = 0.0
    gathered: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all parts: an upper bound, which is reached if gradients are accumulated over several passes."""
        states = self.weights + self.gradients + self.optimizer
        return states + self.activations + self.working + self.gathered

    @property
    def peak_bytes(self) -> float:
        """The largest memory during a step without gradient accumulation.

        The backward pass releases activations as it creates gradients, so only the larger of both is added.
        """
        fixed_bytes = self.weights + self.optimizer + self.gathered
        return fixed_bytes + max(self.gradients, self.activations + self.working)


def estimate_weights(parameters: float, precision: str) -> float:
    """Return the bytes of a model's weights: parameters times bytes of a value.

    Raises:
        SpecError: the number is not positive, or the precision is unknown.
    """
    require_positive("parameters", parameters, MAX_PARAMETERS)
    require_choice("precision", precision, BYTES)
    return parameters * BYTES[precision]


def estimate_states(trained: float, setup: TrainingSetup | None = None, frozen: float = 0) -> TrainingMemory:
    """Return the bytes of weights, gradients and optimizer on each device, without activations.

    Source: Rajbhandari et al. 2020 (ZeRO), section 3.1 and figure 1: a parameter has 2 + 2 + 12 bytes with Adam in
    mixed precision; stage 1 divides the optimizer's part among the devices, 2 the gradients, too, and 3 the weights,
    too. FSDP is stage 3 (Zhao et al. 2023). A frozen parameter has a weight only (Hu et al. 2021, section 4.2).

    Args:
        trained: number of parameters that are trained.
        setup: how they are trained; None: with Adam in mixed precision, on one device.
        frozen: number of parameters that are not trained.

    Raises:
        SpecError: a number is not positive.
    """
    setup = setup or TrainingSetup()
    require_positive("trained", trained, MAX_PARAMETERS)
    if frozen:
        require_positive("frozen", frozen, MAX_PARAMETERS)
    weight, gradient, copy = STATES[setup.precision]
    optimizer_parts, gradient_parts, weight_parts = (
        setup.devices if setup.stage >= stage else 1 for stage in (1, 2, 3)
    )
    return TrainingMemory(
        weights=(trained * weight + frozen * BYTES[setup.computation]) / weight_parts,
        gradients=trained * gradient / gradient_parts,
        optimizer=trained * (copy + OPTIMIZERS[setup.optimizer]) / optimizer_parts,
    )


def estimate_gpt_activations(
    layers: int, sequence: int, batch: int, hidden: int, heads: int, *, is_recomputed: bool = False
) -> float:
    """Return the bytes of the activations of a GPT with 16-bit values, dropout, and attention without FlashAttention.

    Source: Korthikanti et al. 2022 (Reducing Activation Recomputation in Large Transformer Models), equations 1 and 2,
    and table 2: `s * b * h * (34 + 5 * a * s / h)` a layer, and `2 * s * b * h` if each layer is computed again.

    Args:
        layers: number of layers.
        sequence: tokens of a sequence.
        batch: sequences that are computed at once on a device.
        hidden: width of a token's hidden state.
        heads: number of attention heads.
        is_recomputed: whether only the input of each layer is kept.

    Raises:
        SpecError: a number is not positive.
    """
    for name, value in {"layers": layers, "sequence": sequence, "batch": batch, "hidden": hidden}.items():
        require_positive(name, value)
    require_positive("heads", heads)
    factor = 2.0 if is_recomputed else 34 + 5 * heads * sequence / hidden
    return layers * sequence * batch * hidden * factor


def estimate_layer_activations(size: DecoderSize, sequence: int, setup: TrainingSetup) -> float:
    """Return the bytes that a gated decoder layer stores for each token, with attention that stores no scores.

    Source: counted by operation, as Korthikanti et al. 2022 do for GPT, for the layer of Llama in transformers 5.24
    with sdpa; `python -m benchmarks language_model` compares it with a measurement. Each norm stores its input in fp32,
    its normalized input, and its output, which the linear layers after it share. Attention stores queries, keys, values
    and its output. The gated layer stores four values: gate, its activation, up, and their product. Packed documents
    need a mask: torch stores it as numbers in each layer, and transformers repeats keys and values for each head of the
    queries. With LoRA, a norm does not store its normalized input, because its weights are frozen; each matrix stores
    `rank` values.

    Args:
        size: size of the model.
        sequence: tokens of a sequence.
        setup: precision of the computation, packing, and rank of LoRA.
    """
    value_bytes = BYTES[setup.computation]
    norms = 2 * size.hidden * (BYTES["fp32"] + value_bytes * (1 if setup.rank else 2))
    attention = 4 * size.query_width + sequence if setup.is_packed else 2 * (size.query_width + size.key_width)
    sums = BYTES["fp32"] * (2 + size.heads)  # sums of the norms, and of the scores of each head
    return norms + sums + value_bytes * (attention + 4 * size.intermediate + LINEAR_LAYERS * setup.rank)


def estimate_activations(size: DecoderSize, sequence: int, batch: int, setup: TrainingSetup) -> float:
    """Return the bytes that all layers of a gated decoder store in the forward pass for the backward pass.

    With gradient checkpointing (Chen et al. 2016), only the input of each layer is kept. The norm after the last layer
    is added, unless it is frozen.

    Args:
        size: size of the model.
        sequence: tokens of a sequence.
        batch: sequences that are computed at once on a device.
        setup: how the model is trained.

    Raises:
        SpecError: a number is not positive.
    """
    require_positive("sequence", sequence, MAX_DIMENSION)
    require_positive("batch", batch, MAX_DIMENSION)
    value_bytes = BYTES[setup.computation]
    layer = size.hidden * value_bytes if setup.is_recomputed else estimate_layer_activations(size, sequence, setup)
    last_norm = 0.0 if setup.rank else size.hidden * (BYTES["fp32"] + 2 * value_bytes)
    return sequence * batch * (size.layers * layer + last_norm)


def estimate_training(size: DecoderSize, sequence: int, batch: int, setup: TrainingSetup) -> TrainingMemory:
    """Return the bytes of a training of a gated decoder on each device, by part.

    The logits are those of all tokens, in fp32, with `LOSS_COPIES` at the start of the backward pass. With gradient
    checkpointing, a layer is computed again after the logits are released, so only the larger one of both is added.

    Args:
        size: size of the model.
        sequence: tokens of a sequence.
        batch: sequences that are computed at once on a device.
        setup: how the model is trained.

    Raises:
        SpecError: a number is not positive.
    """
    activations, tokens = estimate_activations(size, sequence, batch, setup), sequence * batch
    trained, frozen = (size.count_lora_parameters(setup.rank), size.parameters) if setup.rank else (size.parameters, 0)
    logits = tokens * size.vocabulary * LOSS_COPIES * BYTES["fp32"]
    recomputed = tokens * estimate_layer_activations(size, sequence, setup) if setup.is_recomputed else 0.0
    gathered = GATHERED_LAYERS * size.layer_parameters + size.outer_parameters if setup.stage == 3 else 0
    return replace(
        estimate_states(trained, setup, frozen),
        activations=activations,
        working=max(logits, recomputed),
        gathered=gathered * BYTES[setup.computation],
    )
