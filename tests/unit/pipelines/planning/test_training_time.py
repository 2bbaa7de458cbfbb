"""Test the estimates of computation and time with the examples that the sources publish."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.errors import SpecError
from pipelines.instances.accelerators import find_peak_flops
from pipelines.planning.sizes import DecoderSize
from pipelines.planning.training_time import (
    compute_utilization,
    count_attention_flops,
    count_token_flops,
    estimate_training_s,
)

DAY_S = 86_400


def test_gpt_3() -> None:
    """Brown et al. 2020, table D.1: 175B parameters, 300B tokens, 3.14e23 operations."""
    assert count_token_flops(174.6e9) * 300e9 == pytest.approx(3.14e23, rel=0.01)


def test_days_of_gpt_3() -> None:
    """Narayanan et al. 2021, section 5.1: 34 days on 1,024 A100, at 140 TFLOP/s each, with recomputation."""
    flops = count_token_flops(175e9, is_recomputed=True) * 300e9
    assert estimate_training_s(flops, 312e12, 1024, utilization=140 / 312) / DAY_S == pytest.approx(34, abs=0.2)


def test_days_of_a_trillion_parameters() -> None:
    """Narayanan et al. 2021, section 5.1: 84 days on 3,072 A100, at 163 TFLOP/s each, for 450B tokens."""
    flops = count_token_flops(1e12, is_recomputed=True) * 450e9
    assert estimate_training_s(flops, 163e12, 3072, utilization=1) / DAY_S == pytest.approx(84, abs=1)


def test_utilization_of_palm() -> None:
    """Chowdhery et al. 2022, table 3 and appendix B: 46.2 % with 238.3 thousand tokens per second on 6,144 TPU v4."""
    size = DecoderSize(118, 18432, 4 * 18432, 48, 1, 256_000, is_tied=True, head_width=256)
    token_flops = count_token_flops(540.35e9, attention=count_attention_flops(size, 2048))
    assert token_flops == pytest.approx(6 * 540.35e9 + 12 * 118 * 48 * 256 * 2048)
    assert compute_utilization(token_flops, 238.3e3, 275e12, 6144) == pytest.approx(0.462, abs=0.001)


def test_lora_and_recomputation() -> None:
    assert [count_token_flops(1, is_lora=is_lora) for is_lora in (False, True)] == [6, 4]
    assert [count_token_flops(1, is_lora=is_lora, is_recomputed=True) for is_lora in (False, True)] == [8, 6]


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A10G", 70e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("Tesla T4", 65e12),
        ("NVIDIA GeForce RTX 9999", None),
    ],
)
def test_peak_of_a_gpu(device: str, peak: float | None) -> None:
    assert find_peak_flops(device) == peak


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: count_token_flops(-1), "parameters must be a positive number, not -1."),
        (lambda: estimate_training_s(-1, 1), "flops must be a positive number, not -1."),
        (lambda: estimate_training_s(1, 1, 0), "devices must be a positive number, not 0."),
        (lambda: estimate_training_s(1, 1, utilization=0), "utilization must be a positive number, not 0."),
        (lambda: estimate_training_s(1, 1, utilization=40), "utilization must be at most 1, not 40."),
        (lambda: compute_utilization(1, -5, 1), "tokens_per_s must be a positive number, not -5."),
        (lambda: count_attention_flops(DecoderSize(1, 8, 8, 2, 2, 8), 0), "sequence must be a positive number, not 0."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError, match=text.replace(".", r"\.")):
        call()
