"""Test the estimates of the memory of an inference with the examples that the sources publish. GB are 10^9 bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.errors import SpecError
from pipelines.planning.inference_memory import (
    InferenceSetup,
    estimate_inference,
    estimate_prefill,
    estimate_token_cache,
)
from pipelines.planning.memory import estimate_weights
from pipelines.planning.models import MODELS
from pipelines.planning.sizes import DecoderSize

LLAMA_3_8B, LLAMA_3_70B = MODELS["llama-3-8b"], MODELS["llama-3-70b"]


def test_cache_of_opt_13b() -> None:
    """Kwon et al. 2023, section 3: 800 KB for each token, and 1.6 GB for 2,048 tokens, with 40 layers of 5,120."""
    opt = DecoderSize(layers=40, hidden=5120, intermediate=20480, heads=40, key_heads=40, vocabulary=50272)
    assert estimate_token_cache(opt, "fp16") == 800 * 1024
    assert 2048 * estimate_token_cache(opt, "fp16") == pytest.approx(1.6 * 1024**3, rel=0.03)


def test_grouped_queries_need_a_part_of_the_cache() -> None:
    """Ainslie et al. 2023, section 2.2: 8 heads of keys in place of 64 divide the cache by 8."""
    whole = DecoderSize(80, 8192, 28672, 64, 64, 128256)
    assert estimate_token_cache(whole) == 8 * estimate_token_cache(LLAMA_3_70B)
    assert estimate_token_cache(LLAMA_3_8B) == 2 * 32 * 8 * 128 * 2 == 131_072
    assert estimate_token_cache(LLAMA_3_8B, "int8") == 65_536


def test_weights_of_70b() -> None:
    """A published case: 140 GB at FP16, and half of it at INT8; Llama 3 has 70.55B parameters."""
    assert [estimate_weights(70e9, name) / 1e9 for name in ("fp16", "int8")] == [140, 70]
    memory = estimate_inference(LLAMA_3_70B, 4096, 1, InferenceSetup("fp16"))
    assert memory.weights / 1e9 == pytest.approx(141.1, abs=0.05)
    assert estimate_inference(LLAMA_3_70B, 4096, 1, InferenceSetup("int8")).weights == memory.weights / 2


def test_devices_share_weights_and_cache() -> None:
    one, four = (estimate_inference(LLAMA_3_70B, 4096, 8, InferenceSetup(devices=devices)) for devices in (1, 4))
    assert four.weights == one.weights / 4
    assert four.cache == one.cache / 4
    assert one.activations / 4 < four.activations < one.activations  # the input of a layer is whole on each device
    many = estimate_inference(LLAMA_3_70B, 4096, 8, InferenceSetup(devices=32))
    assert many.cache == one.cache / 8  # there are only 8 heads of the keys
    assert one.total == one.weights + one.cache + one.activations


def test_prompts_in_parts_need_fewer_activations() -> None:
    whole = estimate_inference(LLAMA_3_8B, 8192, 4, InferenceSetup())
    parts = estimate_inference(LLAMA_3_8B, 8192, 4, InferenceSetup(prefill=1024))
    assert parts.activations == whole.activations / 8
    assert parts.cache == whole.cache
    assert estimate_prefill(LLAMA_3_8B, 1, 512, InferenceSetup()) == 512 * 128256 * 4  # the logits are larger


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: InferenceSetup("fp12"), "precision must be one of fp32, bf16, fp16, int8, int4, not fp12."),
        (lambda: InferenceSetup(cache="int3"), "cache must be one of"),
        (lambda: InferenceSetup(devices=0), "devices must be a positive number, not 0."),
        (lambda: InferenceSetup(prefill=-1), "prefill must be a positive number, not -1."),
        (lambda: estimate_token_cache(LLAMA_3_8B, "int3"), "cache must be one of"),
        (lambda: estimate_inference(LLAMA_3_8B, 0, 1, InferenceSetup()), "sequence must be a positive number, not 0."),
        (lambda: estimate_inference(LLAMA_3_8B, 1, 10**9, InferenceSetup()), "batch must be at most 1e+07, not 1e+09."),
        (
            lambda: estimate_inference(LLAMA_3_8B, 1, 1, InferenceSetup(devices=3)),
            "3 devices cannot share 32 heads equally.",
        ),
        (lambda: DecoderSize(1, 8, 8, 2, 4, 8), "key_heads (4) must divide heads (2)."),
        (lambda: DecoderSize(1, 12, 8, 6, 4, 8), "key_heads (4) must divide heads (6)."),
        (lambda: estimate_weights(7e18, "fp16"), "parameters must be at most 1e+15, not 7e+18. Check its unit."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
