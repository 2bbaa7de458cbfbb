"""Make a tiny language model, its tokenizer and documents, for the tests of the template."""

from __future__ import annotations

import json
from pathlib import Path

REASON = "torch, transformers or peft is not installed: pip install 'leeway[language]'"
ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "templates/language_model"
COLORS, ANIMALS = ("red", "green", "blue", "black"), ("cat", "dog", "bird", "horse", "mouse")
SENTENCES = [
    f"The {color} {animal} sees the {other} {'and runs ' * (number % 5)}home."
    for number, (color, animal, other) in enumerate(
        (color, animal, other) for color in COLORS for animal in ANIMALS for other in ANIMALS if other != animal
    )
]
"""Text that can be learned."""
SIZES = {"vocab_size": 160, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
HYPERPARAMETERS = {
    **{"precision": "fp32", "sequence_length": 48, "batch_size": 4, "epochs": 2, "learning_rate": 0.01},
    **{"lora_rank": 4, "log_steps": 1, "checkpoint_s": 1_000},
}


def write_base_model(folder: Path) -> Path:
    """Write a model with random weights, and a tokenizer that was trained on the sentences; return the folder."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special_tokens = ["<unk>", "<s>", "</s>"]
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=150, special_tokens=special_tokens))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SIZES, bos_token_id=1, eos_token_id=2)).save_pretrained(folder)
    return folder


def write_documents(folder: Path) -> Path:
    """Write a channel with texts, and prompts with completions; return the folder."""
    lines = [
        {"text": sentence} if number % 3 else {"prompt": sentence[:12], "completion": sentence[12:]}
        for number, sentence in enumerate(SENTENCES)
    ]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder
