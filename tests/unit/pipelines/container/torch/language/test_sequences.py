"""Test the packing of documents: a packed document has the loss that it has alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.tools.language_model import REASON

torch = pytest.importorskip("torch", reason=REASON)
pytest.importorskip("transformers", reason=REASON)

from pipelines.container.torch.language.documents import Document  # noqa: E402
from pipelines.container.torch.language.sequences import (  # noqa: E402
    IGNORED,
    Batch,
    Schedule,
    build_batch,
    check_separation,
    divide,
    pack,
)
from pipelines.errors import DataError  # noqa: E402

LENGTH = 24
VOCABULARY = 64


@pytest.fixture(scope="module")
def model() -> Any:
    """Return a tiny model with random weights, as the template loads one."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=VOCABULARY, **sizes, num_key_value_heads=2, initializer_range=0.2)
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").train()


@pytest.fixture
def documents() -> list[Document]:
    """Return documents of different lengths; half of them have a prompt."""
    generator = torch.Generator().manual_seed(1)
    return [
        Document(
            torch.randint(VOCABULARY, (length,), generator=generator, dtype=torch.int32), length // 2 * (index % 2)
        )
        for index, length in enumerate([7, 1, 9, 2, 5, 24, 11, 3])
    ]


def compute_loss(model: Any, batch: Batch, is_naive: bool = False) -> Any:
    """Return the sum of the losses; in the naive way, the positions continue over the documents of a sequence."""
    positions = torch.arange(batch.tokens.shape[1]).expand_as(batch.tokens) if is_naive else batch.positions
    logits = model(input_ids=batch.tokens, position_ids=positions, use_cache=False).logits.flatten(0, 1)
    return torch.nn.functional.cross_entropy(logits, batch.targets.flatten(), reduction="sum")


def compute_gradients(model: Any, loss: Any) -> dict[str, Any]:
    """Return the gradient of each weight."""
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def compare(first: dict[str, Any], second: dict[str, Any]) -> float:
    """Return the largest difference of a gradient, as a share of the largest gradient."""
    largest = max(float(value.abs().max()) for value in first.values())
    return max(float((first[name] - second[name]).abs().max()) for name in first) / largest


def pack_documents(documents: list[Document]) -> Batch:
    """Return the packed documents, with padding and a sequence that is empty."""
    groups = pack([len(document.tokens) for document in documents], LENGTH)
    return build_batch([*([documents[index] for index in group] for group in groups), []], LENGTH, 0)


def test_packed_documents_have_the_loss_of_each_alone(model: Any, documents: list[Document]) -> None:
    batch = pack_documents(documents)
    assert len(batch.tokens) == 4  # 62 tokens in three sequences, and the empty one
    alone = [build_batch([[document]], len(document.tokens), 0) for document in documents]
    separate_loss = torch.stack([compute_loss(model, each) for each in alone if (each.targets != IGNORED).any()]).sum()
    packed_loss = compute_loss(model, batch)
    assert packed_loss.item() == pytest.approx(separate_loss.item(), rel=1e-5)
    packed, separate = compute_gradients(model, packed_loss), compute_gradients(model, separate_loss)
    assert compare(packed, separate) < 1e-5
    naive_loss = compute_loss(model, batch, is_naive=True)
    assert abs(naive_loss.item() - packed_loss.item()) > 0.01 * packed_loss.item()
    assert compare(packed, compute_gradients(model, naive_loss)) > 0.01


@pytest.mark.parametrize("is_lora", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients(documents: list[Document], is_lora: bool) -> None:
    from transformers import AutoModelForCausalLM, LlamaConfig

    gradients, calls = [], []
    for is_recomputed in (False, True):
        torch.manual_seed(0)
        config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2)
        config.num_attention_heads = config.num_key_value_heads = 4
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").train()
        if is_recomputed:
            model.activation_checkpointing_enable({"use_reentrant": False})
        layer_calls: list[int] = []
        model.model.layers[0].mlp.register_forward_pre_hook(lambda *_, calls=layer_calls: calls.append(1))
        if is_lora:
            peft = pytest.importorskip("peft", reason=REASON)
            model = peft.get_peft_model(model, peft.LoraConfig(target_modules="all-linear", init_lora_weights=False))
        loss = compute_loss(model, pack_documents(documents))
        model.zero_grad()
        loss.backward()
        gradients.append({n: w.grad for n, w in model.named_parameters() if w.requires_grad})
        calls.append(len(layer_calls))
    assert calls == [1, 2]  # the layer was computed again
    assert gradients[0] and compare(*gradients) < 1e-6


def test_a_model_whose_attention_crosses_documents_is_refused(model: Any) -> None:
    def compute(batch: Batch) -> Any:
        return model(input_ids=batch.tokens, position_ids=batch.positions, use_cache=False).logits

    def compute_naively(batch: Batch) -> Any:
        return model(input_ids=batch.tokens, use_cache=False).logits

    check_separation(compute, VOCABULARY, torch.device("cpu"))
    with pytest.raises(
        DataError, match=r"crosses the documents of a sequence\. Set the hyperparameter packing=false\."
    ):
        check_separation(compute_naively, VOCABULARY, torch.device("cpu"))


def test_targets_are_the_next_tokens_of_the_same_document() -> None:
    text = Document(torch.tensor([5, 6, 7], dtype=torch.int32))
    answer = Document(torch.tensor([1, 2, 3, 4], dtype=torch.int32), prompt_length=2)
    batch = build_batch([[text, answer]], 9, 0)
    assert batch.tokens.tolist() == [[5, 6, 7, 1, 2, 3, 4, 0, 0]]
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1, 2, 3, 0, 0]]
    none = IGNORED
    assert batch.targets.tolist() == [[6, 7, none, none, 3, 4, none, none, none]]
    assert (text.target_count, answer.target_count) == (2, 2)


@pytest.mark.parametrize("seed", range(5))
def test_packing_is_complete_and_close_to_the_fewest(seed: int) -> None:
    generator = random.Random(seed)
    lengths = [generator.randint(1, 50) for _ in range(300)]
    groups = pack(lengths, 50)
    assert sorted(index for group in groups for index in group) == list(range(300))
    assert max(sum(lengths[index] for index in group) for group in groups) <= 50
    fewest = -(-sum(lengths) // 50)
    assert len(groups) <= fewest * 11 / 9 + 1
    assert pack(lengths, 50) == groups


def test_each_epoch_has_each_sequence_once() -> None:
    schedule = Schedule(sequence_count=10, batch_size=4, epochs=2, seed=3)
    chosen = [schedule.choose(step) for step in range(schedule.steps)]
    assert [len(each) for each in chosen] == [4, 4, 2, 4, 4, 2]
    epochs = [[number for each in part for number in each] for part in (chosen[:3], chosen[3:])]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize(("count", "part_count", "process_count"), [(8, 1, 1), (7, 2, 3), (1, 4, 2), (5, 8, 1)])
def test_processes_share_a_step(count: int, part_count: int, process_count: int) -> None:
    parts = [divide(range(count), part_count, rank, process_count) for rank in range(process_count)]
    assert len({tuple(len(share) for share in process_parts) for process_parts in parts}) == 1
    assert len(parts[0]) <= part_count
    numbers = [number for process_parts in parts for share in process_parts for number in share if number is not None]
    assert sorted(numbers) == list(range(count))
