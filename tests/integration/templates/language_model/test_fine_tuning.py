"""Test the template for language models: what is trained and written, and that the number of hosts changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from pipelines.system.files import digest_files

BOUND = 1e-5
"""Largest difference of a weight between one host and two, or with and without gradient checkpointing."""
SENTENCE = "The red cat sees the dog home."


def compute_mean_loss(model: Any, folder: Path) -> float:
    """Return the loss of a model on a sentence."""
    tokens = AutoTokenizer.from_pretrained(folder)(SENTENCE, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return float(model(input_ids=tokens, labels=tokens).loss)


def compare_weights(first: dict[str, Any], second: dict[str, Any]) -> float:
    """Return the largest difference of a weight."""
    assert list(first) == list(second)
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def test_lora_trains_the_adapter_alone(make_job: Any, base_model: Path) -> None:
    from peft import PeftModel

    digests, job = digest_files(base_model), make_job("lora")
    log = job.run(epochs=4)
    share = json.loads((job.folder / "host-0/output/data/resources.json").read_text())["data_wait_share"]
    assert 0 < share < 1 and f"data_wait_share={share:.3f};" in log, "the ledger of costs reads the log"
    folder = job.folder / "host-0/model"
    assert {path.name for path in folder.iterdir()} == {
        *("adapter_config.json", "adapter_model.safetensors", "training.json", "tokenizer.json"),
        "tokenizer_config.json",
    }
    assert all("lora_" in name for name in job.read_weights())
    assert digest_files(base_model) == digests
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base_model), folder)
    with model.disable_adapter():
        untrained_loss = compute_mean_loss(model, folder)
    base_loss = compute_mean_loss(AutoModelForCausalLM.from_pretrained(base_model), base_model)
    assert untrained_loss == pytest.approx(base_loss, abs=1e-6)
    assert compute_mean_loss(model, folder) < untrained_loss - 0.1
    assert job.read_losses()[-1] < job.read_losses()[0] - 0.2


def test_full_trains_all_weights(make_job: Any, base_model: Path, documents: Path) -> None:
    job = make_job("full", validation=documents)
    job.run(method="full", epochs=4)
    old, new = load_file(base_model / "model.safetensors"), job.read_weights()
    assert set(old) == set(new)
    assert [name for name in old if torch.equal(old[name], new[name])] == []
    folder = job.folder / "host-0/model"
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]
    assert compute_mean_loss(AutoModelForCausalLM.from_pretrained(folder), folder) < job.read_losses()[0] / 2
    description = json.loads((folder / "training.json").read_text())
    assert description["results"]["validation_loss"] < job.read_losses()[0] / 2
    assert str(job.folder) not in "".join(path.read_text() for path in folder.glob("*.json"))


def test_without_a_learning_rate_nothing_is_learned(make_job: Any) -> None:
    job = make_job("idle")
    job.run(method="full", epochs=4, learning_rate=1e-12)
    assert job.read_losses()[-1] > job.read_losses()[0] - 0.2


@pytest.mark.parametrize(
    "hyperparameters",
    [
        {"method": "full"},
        {"method": "lora"},
        {"method": "lora", "strategy": "fsdp", "accumulation": 2, "batch_size": 5},
        {"method": "full", "strategy": "ddp", "accumulation": 2, "batch_size": 5},
    ],
    ids=lambda value: " ".join(map(str, value.values())),
)
def test_two_hosts_train_the_model_of_one(make_job: Any, run_straight: Any, hyperparameters: dict[str, Any]) -> None:
    one, two = run_straight(1, **{**hyperparameters, "accumulation": 1, "strategy": "auto"}), make_job("two")
    two.run(2, **hyperparameters)
    assert compare_weights(one.read_weights(), two.read_weights()) <= BOUND
    assert two.read_losses() == pytest.approx(one.read_losses(), abs=1e-4)
    assert not list((two.folder / "host-1").rglob("*.safetensors"))  # only the first host writes
    other = run_straight(1, method=hyperparameters["method"], seed=14)
    assert compare_weights(one.read_weights(), other.read_weights()) > 100 * BOUND


@pytest.mark.parametrize(("method", "strategy"), [("lora", "ddp"), ("lora", "fsdp"), ("full", "fsdp"), ("full", "ddp")])
def test_bf16_learns(make_job: Any, method: str, strategy: str) -> None:
    job = make_job("bf16")
    job.run(2 if strategy == "fsdp" else 1, method=method, strategy=strategy, precision="bf16", epochs=4)
    assert {weight.dtype for weight in job.read_weights().values()} == {torch.float32}
    assert job.read_losses()[-1] < job.read_losses()[0] - 0.2


def test_tied_weights(make_job: Any, base_model: Path, tmp_path: Path) -> None:
    """The output layer may be the embeddings: then both stay the same tensor, whole or divided."""
    folder = tmp_path / "tied"
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base_model, tie_word_embeddings=True))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base_model).save_pretrained(folder)
    one, two = make_job("one", model=folder), make_job("two", model=folder)
    one.run(1, method="full")
    two.run(2, method="full")
    assert compare_weights(one.read_weights(), two.read_weights()) <= BOUND
    trained = AutoModelForCausalLM.from_pretrained(two.folder / "host-0/model")
    assert trained.lm_head.weight is trained.model.embed_tokens.weight
    assert compute_mean_loss(trained, folder) < compute_mean_loss(model, folder) - 0.5


@pytest.mark.parametrize("method", ["lora", "full"])
def test_gradient_checkpointing_changes_no_weight(make_job: Any, method: str) -> None:
    kept, again = make_job("kept"), make_job("again")
    kept.run(method=method, gradient_checkpointing="false", lora_dropout=0.3)
    again.run(method=method, gradient_checkpointing="true", lora_dropout=0.3)
    assert compare_weights(kept.read_weights(), again.read_weights()) <= BOUND
