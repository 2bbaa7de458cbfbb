"""Test the largest batch, and what would make a training or an inference fit."""

from __future__ import annotations

import pytest

from pipelines.errors import SpecError
from pipelines.planning.batch_limits import (
    MAX_BATCH,
    compute_available_gb,
    find_largest_batch,
    find_serving_batch,
    find_training_batch,
    list_serving_changes,
    list_training_changes,
)
from pipelines.planning.inference_memory import InferenceSetup, estimate_inference
from pipelines.planning.memory import TrainingSetup, estimate_training
from pipelines.planning.models import MODELS

LLAMA_3_8B, LLAMA_3_70B = MODELS["llama-3-8b"], MODELS["llama-3-70b"]
FULL = TrainingSetup("fp32")


@pytest.mark.parametrize(("device_gb", "batch"), [(12, 0), (12.9, 0), (13, 1), (17.9, 5), (1e6, MAX_BATCH)])
def test_largest_batch(device_gb: float, batch: int) -> None:
    assert find_largest_batch(lambda batch: 10 + batch, device_gb, reserve_gb=2) == batch


def test_largest_batch_of_a_training_fits_and_the_next_one_does_not() -> None:
    setup = TrainingSetup("fp32", is_recomputed=True, stage=3, devices=8)
    batch = find_training_batch(LLAMA_3_8B, 2048, setup, 80, 2)
    totals = [estimate_training(LLAMA_3_8B, 2048, count, setup).total / 1e9 for count in (batch, batch + 1)]
    assert totals[0] <= 78 < totals[1]
    assert find_training_batch(LLAMA_3_8B, 2048, FULL, 80, 2) == 0


def test_largest_batch_of_an_inference() -> None:
    """8,192 tokens of Llama 3 8B are 1.07 GB of cache, beside 16.1 GB of weights and 0.8 GB of activations."""
    batch = find_serving_batch(LLAMA_3_8B, 8192, InferenceSetup(), 24, 2)
    totals = [estimate_inference(LLAMA_3_8B, 8192, count, InferenceSetup()).total / 1e9 for count in (batch, batch + 1)]
    assert totals[0] <= 22 < totals[1]
    assert batch == 4


def test_nothing_is_changed_where_it_fits() -> None:
    assert list_training_changes(LLAMA_3_8B, 2048, 1, FULL, 200) == []
    assert list_serving_changes(LLAMA_3_8B, 4096, 1, InferenceSetup(), 78) == []


def test_each_change_makes_a_training_fit() -> None:
    changes = list_training_changes(LLAMA_3_8B, 2048, 4, TrainingSetup("fp32", rank=16), 78)
    assert [change.text for change in changes] == [
        "a batch of 1 with 4 times the accumulation",
        "gradient checkpointing, which computes a third more",
        "FSDP on 2 devices",
    ]
    assert all(change.needed_gb <= 78 for change in changes)


def test_several_changes_together() -> None:
    """A full training of 8B parameters on a GPU of 24 GB: 16 GPUs, or LoRA."""
    changes = list_training_changes(LLAMA_3_8B, 2048, 4, FULL, 22)
    texts = [change.text for change in changes]
    assert any(text.endswith("and FSDP on 16 devices") for text in texts)
    assert any(text.endswith("and LoRA of rank 16") for text in texts)
    lora = next(change for change in changes if change.text.endswith("LoRA of rank 16"))
    setup = TrainingSetup("fp32", optimizer="adam8bit", rank=16, is_recomputed=True)
    assert lora.needed_gb == estimate_training(LLAMA_3_8B, 2048, 1, setup).total / 1e9 <= 22


def test_stages_on_the_same_devices() -> None:
    changes = list_training_changes(LLAMA_3_8B, 2048, 1, TrainingSetup("fp32", is_recomputed=True, devices=8), 78)
    assert "ZeRO stage 1 on the 8 devices" in [change.text for change in changes]


def test_changes_of_an_inference() -> None:
    assert [change.text for change in list_serving_changes(LLAMA_3_70B, 8192, 1, InferenceSetup(), 78)] == [
        "2 devices that share the model",
        "weights of int8",
    ]
    assert list_serving_changes(LLAMA_3_70B, 8192, 1, InferenceSetup(), 0.001) == []


@pytest.mark.parametrize(
    ("device_gb", "reserve_gb", "text"),
    [
        (-80, 2, "gpu_gb must be a positive number, not -80."),
        (float("nan"), 2, "gpu_gb must be a positive number, not nan."),
        (8e10, 2, "gpu_gb must be at most 1e"),
        (2, 2, "reserve_gb must be at least 0 and less than gpu_gb"),
        (80, -1, "reserve_gb must be at least 0 and less than gpu_gb"),
        (80, float("nan"), "reserve_gb must be at least 0 and less than gpu_gb"),
    ],
)
def test_wrong_memory_is_refused(device_gb: float, reserve_gb: float, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        compute_available_gb(device_gb, reserve_gb)
