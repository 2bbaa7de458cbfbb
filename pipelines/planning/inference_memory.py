"""Estimate the memory that the inference of a language model needs on a device, in bytes.

Each formula names its source. GB in the sources are 10^9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.errors import SpecError
from pipelines.planning.memory import BYTES, estimate_weights
from pipelines.planning.sizes import MAX_DEVICES, MAX_DIMENSION, DecoderSize, require_choice, require_positive

GATED_VALUES = 3
"""Values of the gated layer that exist at once: the activated gate, the up projection, and their product."""


@dataclass(frozen=True)
class InferenceSetup:
    """The settings of an inference that decide its memory.

    Attributes:
        precision: precision of the weights, one of `BYTES`.
        cache: precision of the keys and values in the cache, one of `BYTES`.
        computation: precision of the computation, one of `BYTES`.
        devices: number of devices that share the model (tensor parallelism). The number of query heads must be a
            multiple of it.
        prefill: tokens of prompts that are computed at once; 0 for one whole sequence.

    Raises:
        SpecError: a name is unknown, or a number is out of its range.
    """

    precision: str = "bf16"
    cache: str = "bf16"
    computation: str = "bf16"
    devices: int = 1
    prefill: int = 0

    def __post_init__(self) -> None:
        """Check names and numbers."""
        for name in ("precision", "cache", "computation"):
            require_choice(name, getattr(self, name), BYTES)
        require_positive("devices", self.devices, MAX_DEVICES)
        if self.prefill:
            require_positive("prefill", self.prefill, MAX_DIMENSION)


@dataclass(frozen=True)
class InferenceMemory:
    """Bytes of an inference on one device, by part.

    Attributes:
        weights: weights of the model.
        cache: keys and values of all tokens of all sequences.
        activations: the largest temporary values while a prompt is computed.
    """

    weights: float
    cache: float
    activations: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.weights + self.cache + self.activations


def estimate_token_cache(size: DecoderSize, precision: str = "bf16", devices: int = 1) -> float:
    """Return the bytes of the KV cache for each token, on a device.

    They are `2 * layers * key_width * bytes / min(devices, key_heads)`.

    Source: Kwon et al. 2023 (PagedAttention), section 3: keys and values, for each layer. With grouped-query attention,
    keys and values have fewer heads than queries (Ainslie et al. 2023, section 2.2). A device has at least one head of
    the keys: if there are more devices than such heads, each head is copied to several devices (Pope et al. 2022
    describe this for a model with one such head).

    Args:
        size: size of the model.
        precision: precision of the cache, one of `BYTES`.
        devices: devices that share the heads.

    Raises:
        SpecError: the precision is unknown, or the devices are not a positive number.
    """
    require_choice("cache", precision, BYTES)
    require_positive("devices", devices, MAX_DEVICES)
    return 2 * size.layers * size.key_width * BYTES[precision] / min(devices, size.key_heads)


def estimate_prefill(size: DecoderSize, tokens: int, batch: int, serving: InferenceSetup) -> float:
    """Return the bytes of the largest temporary values of an inference on a device.

    The result is the larger one of two: the values of a layer, or the fp32 logits of the last token of each sequence.
    Each device has the whole input of the layer and the whole normalized input. The larger of two sets is divided among
    the devices: the attention's queries, keys, values and output, or the `GATED_VALUES` of the gated layer.

    Source: counted by operation, for the layer of Llama in transformers, without a gradient, with attention that stores
    no scores. Not compared with a measurement.

    Args:
        size: size of the model.
        tokens: tokens of prompts that are computed at once.
        batch: sequences whose logits are computed at once.
        serving: precision of the computation, and number of devices.

    Raises:
        SpecError: a number is not positive.
    """
    require_positive("tokens", tokens, MAX_DIMENSION)
    require_positive("batch", batch, MAX_DIMENSION)
    value_bytes = BYTES[serving.computation]
    attention = 2 * size.query_width + 2 * size.key_width
    divided_values = max(attention, GATED_VALUES * size.intermediate) / serving.devices
    logits = batch * size.vocabulary * BYTES["fp32"]
    return max(tokens * value_bytes * (2 * size.hidden + divided_values), logits)


def estimate_inference(size: DecoderSize, sequence: int, batch: int, serving: InferenceSetup) -> InferenceMemory:
    """Return the bytes of the inference of a gated decoder on each device, by part.

    Args:
        size: size of the model.
        sequence: tokens of a sequence: its prompt and its answer.
        batch: sequences that are answered at once.
        serving: precisions, number of devices, and tokens of a prefill.

    Raises:
        SpecError: a number is not positive, or the devices cannot share the heads.
    """
    require_positive("sequence", sequence, MAX_DIMENSION)
    require_positive("batch", batch, MAX_DIMENSION)
    if size.heads % serving.devices:
        raise SpecError(f"{serving.devices} devices cannot share {size.heads} heads equally.", "Use 2, 4 or 8 devices.")
    return InferenceMemory(
        weights=estimate_weights(size.parameters, serving.precision) / serving.devices,
        cache=batch * sequence * estimate_token_cache(size, serving.cache, serving.devices),
        activations=estimate_prefill(size, serving.prefill or sequence, batch, serving),
    )
