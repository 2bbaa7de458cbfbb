"""Find the largest batch that fits into the memory of a device, and what would make a training or an inference fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.errors import SpecError
from pipelines.planning.inference_memory import InferenceSetup, estimate_inference
from pipelines.planning.memory import BYTES, TrainingSetup, estimate_training
from pipelines.planning.sizes import DecoderSize, require_positive

RESERVE_GB = 2.0
"""Memory of a device that CUDA, its libraries and the gaps of the allocator take, GB. A guess: measure it."""
MAX_BATCH = 65_536
"""Largest batch that is tried."""
DEVICE_COUNTS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of devices that are tried."""
LORA_RANK = 16
"""Rank of LoRA that is tried."""

PossibleChange = tuple[str, dict[str, Any]]
"""What to change, in words, and as fields with their new values."""


@dataclass(frozen=True)
class Change:
    """A change that makes a training or an inference fit.

    Attributes:
        text: what to change.
        needed_gb: memory of a device after the change, without the reserve.
    """

    text: str
    needed_gb: float


def find_largest_batch(estimate_gb: Callable[[int], float], device_gb: float, reserve_gb: float = RESERVE_GB) -> int:
    """Return the largest batch whose memory fits into a device; 0 if not even one sequence fits.

    The memory must not shrink as the batch grows. The batch is found by bisection, and is at most `MAX_BATCH`.

    Args:
        estimate_gb: function from the number of sequences to the GB that are needed.
        device_gb: memory of a device, GB of 10^9 bytes.
        reserve_gb: part of this memory that the model cannot use.

    Raises:
        SpecError: the reserve is negative, or leaves no memory for the model.
    """
    available_gb = compute_available_gb(device_gb, reserve_gb)
    low, high = 0, MAX_BATCH + 1
    while high - low > 1:
        middle = (low + high) // 2
        if estimate_gb(middle) <= available_gb:
            low = middle
        else:
            high = middle
    return low


def compute_available_gb(device_gb: float, reserve_gb: float = RESERVE_GB) -> float:
    """Return the memory of a device that is left for the model, GB.

    Raises:
        SpecError: the reserve is negative, or leaves no memory for the model.
    """
    require_positive("gpu_gb", device_gb, 1e6)
    if not 0 <= reserve_gb < device_gb:
        raise SpecError(f"reserve_gb must be at least 0 and less than gpu_gb ({device_gb:g}), not {reserve_gb:g}.")
    return device_gb - reserve_gb


def find_training_batch(
    size: DecoderSize, sequence: int, setup: TrainingSetup, device_gb: float, reserve_gb: float
) -> int:
    """Return the most sequences that a device can train on at once; 0 if not even one fits."""
    return find_largest_batch(lambda batch: _estimate_training_gb(size, sequence, batch, setup), device_gb, reserve_gb)


def find_serving_batch(
    size: DecoderSize, sequence: int, serving: InferenceSetup, device_gb: float, reserve_gb: float
) -> int:
    """Return the most sequences that can be answered at once; 0 if not even one fits."""
    return find_largest_batch(lambda batch: _estimate_serving_gb(size, sequence, batch, serving), device_gb, reserve_gb)


def list_training_changes(
    size: DecoderSize, sequence: int, batch: int, setup: TrainingSetup, available_gb: float
) -> list[Change]:
    """Return what would make a training fit: the single changes that are enough, and at most two combinations.

    Of single changes of the same fields, such as two numbers of devices, only the first that is enough is returned.
    One combination gives the same model: fewer sequences at once with more accumulation, gradient checkpointing, and
    sharing (ZeRO). The other one uses 8-bit Adam and LoRA in place of sharing, and so changes how the model is trained.
    The list is empty if the training fits, or no change is enough.
    """
    base_changes: list[PossibleChange] = []
    if batch > 1:
        base_changes.append((f"a batch of 1 with {batch} times the accumulation", {"batch": 1}))
    if not setup.is_recomputed:
        base_changes.append(("gradient checkpointing, which computes a third more", {"is_recomputed": True}))
    sharing: list[PossibleChange] = [
        (f"ZeRO stage {stage} on the {setup.devices} devices", {"stage": stage})
        for stage in range(setup.stage + 1, 4)
        if setup.devices > 1
    ]
    counts = _list_larger_counts(setup.devices)
    sharing += [(f"FSDP on {count} devices", {"stage": 3, "devices": count}) for count in counts]
    other_changes: list[PossibleChange] = (
        [("8-bit Adam", {"optimizer": "adam8bit"})] if setup.optimizer == "adam" else []
    )
    other_changes += [] if setup.rank else [(f"LoRA of rank {LORA_RANK}", {"rank": LORA_RANK})]

    def measure(values: dict[str, Any]) -> float:
        fields = {name: value for name, value in values.items() if name != "batch"}
        return _estimate_training_gb(size, sequence, values.get("batch", batch), replace(setup, **fields))

    return _choose_changes([[*base_changes, *sharing], [*base_changes, *other_changes]], measure, available_gb)


def list_serving_changes(
    size: DecoderSize, sequence: int, batch: int, serving: InferenceSetup, available_gb: float
) -> list[Change]:
    """Return what would make an inference fit: the single changes that are enough, and at most two combinations.

    Of single changes of the same fields, such as two precisions, only the first that is enough is returned.
    One combination shares the model among devices, the other one makes the cache and the weights smaller. The list is
    empty if the inference fits, or no change is enough.
    """
    base_changes: list[PossibleChange] = [("a batch of 1", {"batch": 1})] if batch > 1 else []
    smaller_changes: list[PossibleChange] = [("a cache of int8", {"cache": "int8"})] if BYTES[serving.cache] > 1 else []
    smaller_changes += [
        (f"weights of {name}", {"precision": name})
        for name in ("int8", "int4")
        if BYTES[serving.precision] > BYTES[name]
    ]
    sharing: list[PossibleChange] = [
        (f"{count} devices that share the model", {"devices": count})
        for count in _list_larger_counts(serving.devices)
        if size.heads % count == 0
    ]

    def measure(values: dict[str, Any]) -> float:
        fields = {name: value for name, value in values.items() if name != "batch"}
        return _estimate_serving_gb(size, sequence, values.get("batch", batch), replace(serving, **fields))

    return _choose_changes([[*base_changes, *sharing], [*base_changes, *smaller_changes]], measure, available_gb)


def _estimate_training_gb(size: DecoderSize, sequence: int, batch: int, setup: TrainingSetup) -> float:
    return estimate_training(size, sequence, batch, setup).total / 1e9


def _estimate_serving_gb(size: DecoderSize, sequence: int, batch: int, serving: InferenceSetup) -> float:
    return estimate_inference(size, sequence, batch, serving).total / 1e9


def _list_larger_counts(devices: int) -> list[int]:
    return [count for count in DEVICE_COUNTS if count > devices]


def _choose_changes(
    change_lists: Sequence[Sequence[PossibleChange]], measure: Callable[[dict[str, Any]], float], available_gb: float
) -> list[Change]:
    """Return the single changes that are enough, and for each list the combination of its changes that is enough."""
    if measure({}) <= available_gb:
        return []
    single_changes: dict[str, tuple[dict[str, Any], Change]] = {}
    for text, values in [change for possible_changes in change_lists for change in possible_changes]:
        change = Change(text, measure(values))
        # If a change is enough, stronger ones of the same fields are not listed, such as a larger number of devices.
        is_repeated = any(fields.keys() == values.keys() for fields, _ in single_changes.values())
        if change.needed_gb <= available_gb and not is_repeated:
            single_changes.setdefault(text, (values, change))
    combinations = [
        _combine(possible_changes, measure, available_gb, set(single_changes)) for possible_changes in change_lists
    ]
    changes = [*(change for _, change in single_changes.values()), *combinations]
    return list(dict.fromkeys(change for change in changes if change))


def _combine(
    possible_changes: Sequence[PossibleChange],
    measure: Callable[[dict[str, Any]], float],
    available_gb: float,
    single_changes: set[str],
) -> Change | None:
    """Combine the changes that save memory, one after the other, until they are enough.

    Return None if all changes together are not enough, or if the last one is enough alone.
    """
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}  # text by field: a later change of a field replaces an earlier one
    for text, new_values in possible_changes:
        if measure(values | new_values) >= measure(values):
            continue
        values |= new_values
        texts |= dict.fromkeys(new_values, text)
        if (needed_gb := measure(values)) <= available_gb:
            return None if text in single_changes else Change(", and ".join(dict.fromkeys(texts.values())), needed_gb)
    return None
