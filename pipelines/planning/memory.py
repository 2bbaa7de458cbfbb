"""Estimate the memory of a training by its parts, in bytes for each device. Each formula names its source.

GB in the sources are 10^9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.planning.sizes import LAYER_TARGETS, DecoderSize, require_choice, require_positive

BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
"""Bytes of a value by precision."""
STATES: dict[str, tuple[float, float, float]] = {"fp32": (4, 4, 0), "mixed": (2, 2, 4), "bf16": (2, 2, 0)}
"""Precision of a training to the bytes of a parameter: its weight, its gradient, and the optimizer's fp32 copy of it.

`mixed` is that of Micikevicius et al. 2018, as ZeRO counts it. torch's autocast, and FSDP with a MixedPrecisionPolicy,
store as `fp32` does, and compute in bf16: with Adam, both are 16 bytes."""
BLOCK = 256
"""Parameters that share the scale of a quantized optimizer (bitsandbytes; 2,048 in Dettmers et al. 2022)."""
OPTIMIZERS = {"sgd": 0.0, "momentum": 4.0, "adam": 8.0, "adam8bit": 2 * (1 + 4 / BLOCK)}
"""Optimizer to the bytes of its states for a parameter."""
GATHERED_LAYERS = 2
"""Layers that FSDP has whole at a time: the one that is computed, and the next one."""
LOSS_COPIES = 3
"""fp32 copies of the logits at the start of the backward pass: log-softmax, its gradient, and that of the logits."""


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of a training on one device, by part.

    Attributes:
        weights: weights, trained and frozen.
        gradients: gradients of the weights that are trained.
        optimizer: the optimizer's states, and its fp32 copy of the weights in mixed precision.
        activations: what the forward pass keeps for the backward pass.
        working: the largest temporary: the logits with their gradients, or a layer that is computed again.
        gathered: whole layers that FSDP has for the moment.
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
        return self.peak + min(self.gradients, self.activations + self.working)

    @property
    def peak(self) -> float:
        """The largest sum at one moment of a step with one pass: as gradients come, activations are released."""
        fixed = self.weights + self.optimizer + self.gathered
        return fixed + max(self.gradients, self.activations + self.working)


def estimate_weights(parameters: float, precision: str) -> float:
    """Return the bytes of a model's weights: parameters times bytes of a value.

    Raises:
        SpecError: the number is not positive, or the precision is unknown.
    """
    require_positive("parameters", parameters)
    require_choice("precision", precision, BYTES)
    return parameters * BYTES[precision]


def estimate_states(
    trained: float,
    *,
    frozen: float = 0,
    precision: str = "mixed",
    frozen_precision: str = "bf16",
    optimizer: str = "adam",
    stage: int = 0,
    devices: int = 1,
) -> TrainingMemory:
    """Return the bytes of weights, gradients and optimizer on each device, without activations.

    Source: Rajbhandari et al. 2020 (ZeRO), section 3.1 and figure 1: a parameter has 2 + 2 + 12 bytes with Adam in
    mixed precision; stage 1 divides the optimizer's part among the devices, 2 the gradients, too, and 3 the weights,
    too. FSDP is stage 3 (Zhao et al. 2023). A frozen parameter has a weight only (Hu et al. 2021, section 4.2).

    Args:
        trained: number of parameters that are trained.
        frozen: number of parameters that are not.
        precision: one of `STATES`.
        frozen_precision: one of `BYTES`.
        optimizer: one of `OPTIMIZERS`.
        stage: 0 (all whole, as with DDP) to 3.
        devices: number of devices.

    Raises:
        SpecError: a number is not positive, or a name is unknown.
    """
    require_positive("trained", trained)
    if frozen:
        require_positive("frozen", frozen)
    require_positive("devices", devices)
    require_choice("precision", precision, STATES)
    require_choice("frozen_precision", frozen_precision, BYTES)
    require_choice("optimizer", optimizer, OPTIMIZERS)
    require_choice("stage", stage, range(4))
    weight, gradient, copy = STATES[precision]
    return TrainingMemory(
        weights=(trained * weight + frozen * BYTES[frozen_precision]) / (devices if stage >= 3 else 1),
        gradients=trained * gradient / (devices if stage >= 2 else 1),
        optimizer=trained * (copy + OPTIMIZERS[optimizer]) / (devices if stage >= 1 else 1),
    )


def estimate_gpt_activations(
    layers: int, sequence: int, batch: int, hidden: int, heads: int, *, is_recomputed: bool = False
) -> float:
    """Return the bytes of the activations of a GPT with 16-bit values, dropout, and attention without FlashAttention.

    Source: Korthikanti et al. 2022 (Reducing Activation Recomputation in Large Transformer Models), equations 1 and 2,
    and table 2: `s b h (34 + 5 a s / h)` a layer, and `2 s b h` if each layer is computed again.

    Args:
        layers: number of layers.
        sequence: tokens of a sequence.
        batch: sequences that are computed at once on a device.
        hidden: width of a token.
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


def estimate_layer_activations(size: DecoderSize, precision: str, rank: int = 0) -> float:
    """Return the bytes that a gated decoder layer keeps for each token, with attention that keeps no scores.

    Source: counted by operation, as Korthikanti et al. 2022 do for GPT, for the layer of Llama in transformers 5.24
    with sdpa; `python -m benchmarks language_model` compares it with a measurement. A norm keeps its input in fp32,
    what it has normalized, and its output, which the linear layers after it share; attention keeps queries, keys,
    values and its output; the gated layer keeps four values: gate, its activation, up, and their product. With LoRA,
    a norm need not keep what it has normalized, because its weights are frozen; each matrix keeps `rank` values.

    Args:
        size: size of the model.
        precision: precision of the computation, one of `BYTES`.
        rank: rank of LoRA; 0 if all weights are trained.

    Raises:
        SpecError: the precision is unknown.
    """
    require_choice("precision", precision, BYTES)
    value = BYTES[precision]
    norms = 2 * size.hidden * (BYTES["fp32"] + value * (1 if rank else 2))
    attention = 2 * value * (size.query_width + size.key_width)
    return norms + attention + value * (4 * size.intermediate + LAYER_TARGETS * rank)


def estimate_activations(
    size: DecoderSize, tokens: float, *, precision: str = "bf16", rank: int = 0, is_recomputed: bool = False
) -> float:
    """Return the bytes that all layers of a gated decoder keep for the backward pass.

    With gradient checkpointing (Chen et al. 2016), only the input of each layer is kept, and one layer at a time is
    computed again.

    Args:
        size: size of the model.
        tokens: tokens that are computed at once on a device: sequences times their length.
        precision: precision of the computation, one of `BYTES`.
        rank: rank of LoRA; 0 if all weights are trained.
        is_recomputed: whether gradient checkpointing is used.

    Raises:
        SpecError: a number is not positive, or the precision is unknown.
    """
    require_positive("tokens", tokens)
    layer = estimate_layer_activations(size, precision, rank)
    if not is_recomputed:
        return tokens * size.layers * layer
    return tokens * (size.layers * size.hidden * BYTES[precision] + layer)


def estimate_training(
    size: DecoderSize,
    tokens: float,
    *,
    precision: str = "fp32",
    computation: str = "bf16",
    optimizer: str = "adam",
    rank: int = 0,
    is_recomputed: bool = False,
    stage: int = 0,
    devices: int = 1,
) -> TrainingMemory:
    """Return the bytes of a training of a gated decoder on each device, by part.

    The logits are those of all tokens, in fp32, with `LOSS_COPIES` at the start of the backward pass. With gradient
    checkpointing, a layer is computed again after they are released, so the larger one of both counts.

    Args:
        size: size of the model.
        tokens: tokens that are computed at once on a device.
        precision: precision of the weights that are trained, one of `STATES`.
        computation: precision of the computation and of frozen weights, one of `BYTES`.
        optimizer: one of `OPTIMIZERS`.
        rank: rank of LoRA on all linear layers; 0 if all weights are trained.
        is_recomputed: whether gradient checkpointing is used.
        stage: ZeRO stage; 3 for FSDP.
        devices: number of devices.

    Raises:
        SpecError: a number is not positive, or a name is unknown.
    """
    trained, frozen = (size.count_lora_parameters(rank), size.parameters) if rank else (size.parameters, 0)
    states = estimate_states(
        trained,
        frozen=frozen,
        precision=precision,
        frozen_precision=computation,
        optimizer=optimizer,
        stage=stage,
        devices=devices,
    )
    activations = estimate_activations(size, tokens, precision=computation, rank=rank, is_recomputed=is_recomputed)
    again = tokens * estimate_layer_activations(size, computation, rank) if is_recomputed else 0.0
    logits = tokens * size.vocabulary * LOSS_COPIES * BYTES["fp32"]
    gathered = GATHERED_LAYERS * size.layer_parameters + size.outer_parameters if stage == 3 else 0
    return TrainingMemory(
        states.weights,
        states.gradients,
        states.optimizer,
        activations - again,
        working=max(logits, again),
        gathered=gathered * BYTES[computation],
    )
