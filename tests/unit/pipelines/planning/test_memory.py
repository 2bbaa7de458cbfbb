"""Test the estimates of memory with the examples that the sources publish. GB are 10^9 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipelines.errors import SpecError
from pipelines.planning.memory import (
    OPTIMIZERS,
    TrainingSetup,
    estimate_activations,
    estimate_gpt_activations,
    estimate_layer_activations,
    estimate_states,
    estimate_training,
    estimate_weights,
)
from pipelines.planning.sizes import DecoderSize

GB = 1e9
LLAMA_2_7B = DecoderSize(layers=32, hidden=4096, intermediate=11008, heads=32, key_heads=32, vocabulary=32000)
LLAMA_3_8B = DecoderSize(layers=32, hidden=4096, intermediate=14336, heads=32, key_heads=8, vocabulary=128256)


@pytest.mark.parametrize(
    ("parameters", "precision", "gb"),
    [(7e9, "fp16", 14), (70e9, "fp16", 140), (70e9, "int8", 70), (70e9, "int4", 35), (7e9, "fp32", 28)],
)
def test_weights(parameters: float, precision: str, gb: float) -> None:
    assert estimate_weights(parameters, precision) == gb * GB


def test_full_fine_tuning_with_adam_needs_16_bytes_a_parameter() -> None:
    """7B parameters: 112 GB, in mixed precision, and with fp32 weights that are computed in bf16."""
    assert estimate_states(7e9).total == 112 * GB
    assert estimate_states(7e9, TrainingSetup("fp32")).total == 112 * GB


@pytest.mark.parametrize(("stage", "gb"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_stages(stage: int, gb: float) -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5B parameters on 64 devices."""
    assert estimate_states(7.5e9, TrainingSetup(stage=stage, devices=64)).total == pytest.approx(gb * GB, rel=0.02)


def test_lora_of_gpt_3() -> None:
    """Hu et al. 2021, section 4.2: about 350 GB in place of 1.2 TB, and 35 MB of matrices with rank 4 in two layers."""
    trained = 2 * 96 * 4 * (12288 + 12288)
    assert estimate_weights(trained, "fp16") == pytest.approx(35e6, rel=0.1)
    assert estimate_states(trained, frozen=175e9).total == pytest.approx(350 * GB, rel=0.01)


def test_16_bit_fine_tuning_of_65b() -> None:
    """Dettmers et al. 2023 (QLoRA), section 1: more than 780 GB, with 2 + 2 + 8 bytes."""
    assert estimate_states(65e9, TrainingSetup("bf16")).total == 780 * GB


def test_8_bit_adam_needs_a_quarter() -> None:
    """Dettmers et al. 2022, section 2: 8 bytes of states become 2, and the scales of the blocks."""
    states = {name: estimate_states(1e9, TrainingSetup("fp32", optimizer=name)).optimizer for name in OPTIMIZERS}
    adam, quantized = states["adam"], states["adam8bit"]
    assert quantized == pytest.approx(adam / 4, rel=0.02) and quantized > adam / 4
    assert (states["sgd"], states["momentum"]) == (0, adam / 2)


@pytest.mark.parametrize(("heads", "hidden", "factor"), [(96, 12288, 80), (128, 20480, 64)])
def test_activations_of_gpt(heads: int, hidden: int, factor: int) -> None:
    """Korthikanti et al. 2022, section 5: 5as/h is 80 for GPT-3, and 64 for MT-NLG; 2 bytes with recomputation."""
    sizes: dict[str, Any] = {"layers": 1, "sequence": 2048, "batch": 1, "hidden": hidden, "heads": heads}
    assert estimate_gpt_activations(**sizes) == 2048 * hidden * (34 + factor)
    assert estimate_gpt_activations(**sizes, is_recomputed=True) == 2 * 2048 * hidden


def test_parameters_of_llama() -> None:
    """The published numbers: 6.74B and 8.03B; LoRA of rank 16 on all linear layers of Llama 3 8B: 41.9M."""
    assert LLAMA_2_7B.parameters == 6_738_415_616
    assert LLAMA_3_8B.parameters == 8_030_261_248
    assert LLAMA_3_8B.count_lora_parameters(16) == 41_943_040


def test_parts_of_a_training() -> None:
    tokens = 2 * 2048
    kept = estimate_training(LLAMA_3_8B, 2048, 2, TrainingSetup("fp32"))
    again = estimate_training(LLAMA_3_8B, 2048, 2, TrainingSetup("fp32", is_recomputed=True))
    assert kept.weights == kept.gradients == 4 * LLAMA_3_8B.parameters == kept.optimizer / 2
    assert again.activations == tokens * (32 * 4096 * 2 + 4096 * 8) < kept.activations / 10
    assert kept.total == kept.weights + kept.gradients + kept.optimizer + kept.activations + kept.working
    assert kept.peak_bytes < kept.total
    assert estimate_activations(LLAMA_3_8B, 2048, 2, TrainingSetup("fp32")) == kept.activations
    lora = estimate_training(LLAMA_3_8B, 2048, 2, TrainingSetup("fp32", rank=16))
    assert lora.weights == 2 * LLAMA_3_8B.parameters + 4 * LLAMA_3_8B.count_lora_parameters(16)
    assert lora.activations < kept.activations


def test_layer_of_a_small_llama() -> None:
    """What autograd kept for each token of fp32 layers with 192, 512 and 6 heads, in sequences of 256 (torch 2.13)."""
    size = DecoderSize(layers=2, hidden=192, intermediate=512, heads=6, key_heads=2, vocabulary=4096)
    assert estimate_layer_activations(size, 256, TrainingSetup("fp32", "fp32")) == 16_928
    assert estimate_layer_activations(size, 256, TrainingSetup("fp32", "fp32", rank=16)) == 15_840
    without_mask = estimate_layer_activations(size, 256, TrainingSetup("fp32", "fp32", is_packed=False))
    assert without_mask == 16_928 - 4 * (256 + 2 * (192 - 64))


def test_fsdp_divides_the_states_and_gathers_layers() -> None:
    whole = estimate_training(LLAMA_3_8B, 2048, 1, TrainingSetup())
    part = estimate_training(LLAMA_3_8B, 2048, 1, TrainingSetup(stage=3, devices=8))
    for name in ("weights", "gradients", "optimizer"):
        assert getattr(part, name) == getattr(whole, name) / 8
    assert part.activations == whole.activations  # each device has its own sequences
    assert whole.gathered == 0 < part.gathered < estimate_weights(LLAMA_3_8B.parameters, "bf16")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: estimate_weights(-7e9, "fp16"), "parameters must be a positive number, not -7000000000.0."),
        (lambda: estimate_weights(0, "fp16"), "parameters must be a positive number, not 0."),
        (lambda: estimate_weights(float("nan"), "fp16"), "parameters must be a positive number, not nan."),
        (lambda: estimate_weights(7e9, "fp12"), "precision must be one of fp32, bf16, fp16, int8, int4, not fp12."),
        (lambda: estimate_states(7e9, frozen=-1), "frozen must be a positive number, not -1."),
        (lambda: TrainingSetup(devices=0), "devices must be a positive number, not 0."),
        (lambda: TrainingSetup(stage=4), "stage must be one of 0, 1, 2, 3, not 4."),
        (lambda: TrainingSetup(optimizer="lion"), "optimizer must be one of sgd, momentum, adam, adam8bit"),
        (
            lambda: estimate_activations(LLAMA_3_8B, -1, 1, TrainingSetup()),
            "sequence must be a positive number, not -1.",
        ),
        (lambda: TrainingSetup("fp12"), "precision must be one of"),
        (lambda: estimate_gpt_activations(1, 2048, 1, -4, 4), "hidden must be a positive number, not -4."),
        (lambda: TrainingSetup(rank=-1), "rank must be a positive number, not -1."),
        (lambda: LLAMA_3_8B.count_lora_parameters(-16), "rank must be a positive number, not -16."),
        (lambda: DecoderSize(-1, 8, 8, 2, 2, 8), "layers must be a positive number, not -1."),
        (lambda: DecoderSize(1, 9, 8, 2, 2, 8), "hidden (9) must be a multiple of heads (2)."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
