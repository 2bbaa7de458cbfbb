"""Test the estimates of trainings of language models on instances."""

import pytest

from pipelines.errors import SpecError
from pipelines.instances.catalogue import find_instance
from pipelines.planning.memory import TrainingSetup
from pipelines.planning.recommendation.decoder_shape import guess_size
from pipelines.planning.recommendation.language_model import LanguageModelWorkload
from pipelines.planning.recommendation.workloads import Estimate, Infeasibility, Machines


def estimate(workload: LanguageModelWorkload, name: str, count: int = 1) -> Estimate:
    result = workload.estimate(Machines(find_instance(name), count))
    assert isinstance(result, Estimate), result
    return result


def refuse(workload: LanguageModelWorkload, name: str, count: int = 1) -> Infeasibility:
    result = workload.estimate(Machines(find_instance(name), count))
    assert isinstance(result, Infeasibility), result
    return result


@pytest.mark.parametrize(
    ("parameters", "layers", "hidden"), [(6.74e9, 32, 4096), (13.0e9, 40, 5120), (1.1e9, 22, 2048)]
)
def test_the_guessed_size_is_near_that_of_published_models(parameters: float, layers: int, hidden: int) -> None:
    """Llama 2 (7 and 13 billion) and TinyLlama: config.json."""
    size = guess_size(parameters)
    assert size.parameters == pytest.approx(parameters, rel=0.1)
    assert size.hidden == pytest.approx(hidden, rel=0.2) and size.layers == pytest.approx(layers, rel=0.35)


def test_the_time_is_that_of_the_formula_where_nothing_is_sent() -> None:
    """Operations / (peak x utilization): 6 N for each token, and attention; LoRA of 7 billion on one H100."""
    workload = LanguageModelWorkload(7e9, 1e8, "lora")
    result = estimate(workload, "ml.p5.4xlarge")
    attention = 4 * workload.size.layers * workload.size.query_width * 2_048
    flops = 1e8 * (4 * 7e9 + 3 * attention)
    assert result.seconds == pytest.approx(flops / (989e12 * 0.4), rel=0.01)
    assert result.low_s == pytest.approx(flops / (989e12 * 0.5), rel=0.01)
    assert result.high_s == pytest.approx(flops / (989e12 * 0.3), rel=0.01)


def test_fp32_has_its_own_peak_and_sizes() -> None:
    """An A100 has 312 TFLOP/s with 16 bits, and 19.5 with 32 bits, as torch computes by default: without TF32."""
    single = LanguageModelWorkload(1e9, 1e8, "lora", precision="fp32")
    mixed = LanguageModelWorkload(1e9, 1e8, "lora")
    times = [estimate(workload, "ml.p4d.24xlarge").seconds for workload in (single, mixed)]
    assert times[0] / times[1] == pytest.approx(312 / 19.5, rel=0.01)
    assert "fp32 precision without TF32" in single.describe()
    # LoRA of 7 billion: frozen weights of 4 bytes are 28 GB, those of 2 bytes 14 GB.
    assert estimate(LanguageModelWorkload(7e9, 1e8, "lora"), "ml.g5.xlarge")
    infeasibility = refuse(LanguageModelWorkload(7e9, 1e8, "lora", precision="fp32"), "ml.g5.xlarge")
    assert infeasibility.kind == "memory" and "needs 30 GB" in infeasibility.reason


def test_more_instances_are_faster_and_a_slow_network_scales_worse() -> None:
    workload = LanguageModelWorkload(1e9, 1e9, "full", batch_tokens=65_536)
    fast = [estimate(workload, "ml.p4d.24xlarge", count).seconds for count in (1, 4)]
    slow = [estimate(workload, "ml.g5.xlarge", count).seconds for count in (1, 4)]
    assert fast[0] / fast[1] == pytest.approx(4, rel=0.1)
    assert slow[0] / slow[1] < 3


def test_an_all_reduce_reaches_only_a_share_of_the_network() -> None:
    """Two hosts that only send: 2 (n - 1) / n of 2 GB of gradients over 10 Gbit/s, of which 80 % are reached."""
    workload = LanguageModelWorkload(1e9, 65_536, "full", batch_tokens=65_536)
    instance = find_instance("ml.g5.xlarge")
    seconds = workload._estimate_communication_s(Machines(instance, 2), TrainingSetup("mixed", stage=0, devices=2))
    assert instance.network_gbit_s
    assert seconds == pytest.approx(2e9 / (0.8 * instance.network_gbit_s / 8 * 1e9), rel=0.01)


def test_what_does_not_fit_says_what_would() -> None:
    """7B with Adam in mixed precision: 16 bytes for each parameter, 112 GB (Rajbhandari et al. 2020)."""
    infeasibility = refuse(LanguageModelWorkload(7e9, 1e9), "ml.g5.xlarge")
    assert infeasibility.kind == "memory" and infeasibility.fitting_count == 8
    assert "would fit with 8 instances (in about 27.0 d) or with LoRA" in infeasibility.reason
    assert "GB on each A10G" in infeasibility.reason
    assert "FSDP" in estimate(LanguageModelWorkload(7e9, 1e9), "ml.g5.xlarge", 8).setup
    assert estimate(LanguageModelWorkload(7e9, 1e9, "lora"), "ml.g5.xlarge").setup
    huge = refuse(LanguageModelWorkload(7e11, 1e9), "ml.g5.xlarge")
    assert huge.fitting_count is None and "with no number of instances up to 64" in huge.reason


@pytest.mark.parametrize(
    ("name", "fields", "kind", "text"),
    [
        ("ml.m5.large", {}, "accelerator", "it has no GPU"),
        ("ml.g4dn.xlarge", {"precision": "bf16"}, "accelerator", "no bf16: use --precision mixed"),
        ("ml.g7.2xlarge", {}, "unknown", "the peak of its RTX PRO 4500 is not known"),
        ("ml.p6e-gb200.36xlarge", {}, "unknown", "its size is not known"),
    ],
)
def test_other_reasons(name: str, fields: dict[str, str], kind: str, text: str) -> None:
    infeasibility = refuse(LanguageModelWorkload(1e8, 1e6, **fields), name)
    assert infeasibility.kind == kind and text in infeasibility.reason


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"parameters": -7e9}, "params must be a positive number"),
        ({"parameters": 7}, "params must be at least 5e\\+07"),
        ({"parameters": 7e18}, "params must be at most"),
        ({"tokens": 0}, "tokens must be a positive number"),
        ({"tokens": 1e-300}, "tokens must be at least 1, not 1e-300"),
        ({"batch_tokens": 0.5}, "batch_tokens must be at least 1"),
        ({"tokens": 10**400}, "tokens must be at most 1e\\+15, not more than 1e\\+40"),
        ({"tokens": float("nan")}, "tokens must be a positive number"),
        ({"sequence": -1}, "sequence must be a positive number"),
        ({"method": "qlora"}, "method must be one of full, lora"),
        ({"precision": "fp64"}, "precision must be one of"),
        ({"optimizer": "lion"}, "optimizer must be one of"),
    ],
)
def test_absurd_sizes_are_refused(fields: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        LanguageModelWorkload(**{"parameters": 7e9, "tokens": 1e9, **fields})
