"""Find the size of a language model: in a table of published models, or in the model's config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.errors import SpecError
from pipelines.planning.sizes import DecoderSize

MODELS = {
    "llama-2-7b": DecoderSize(32, 4096, 11008, 32, 32, 32000),
    "llama-2-13b": DecoderSize(40, 5120, 13824, 40, 40, 32000),
    "llama-2-70b": DecoderSize(80, 8192, 28672, 64, 8, 32000),
    "llama-3-8b": DecoderSize(32, 4096, 14336, 32, 8, 128256),
    "llama-3-70b": DecoderSize(80, 8192, 28672, 64, 8, 128256),
    "llama-3.1-405b": DecoderSize(126, 16384, 53248, 128, 8, 128256),
    "mistral-7b": DecoderSize(32, 4096, 14336, 32, 8, 32000),
}
"""Maps the name of each model to its size, from the config.json that is published with its weights: layers, hidden,
intermediate, heads, key_heads and vocabulary."""
GATED_TYPES = ("llama", "mistral", "qwen2", "qwen3")
"""Values of `model_type` in a config.json for which `DecoderSize` describes the layers: decoders with gated layers."""
KEYS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "intermediate": "intermediate_size",
    "heads": "num_attention_heads",
    "key_heads": "num_key_value_heads",
    "vocabulary": "vocab_size",
}
"""Maps each attribute of `DecoderSize` to its key in a config.json of transformers."""


def find_size(model: str) -> DecoderSize:
    """Return the size of a model: by its name in `MODELS`, or from a config.json in the format of transformers.

    The biases of Qwen's queries, keys and values are not counted: they are less than 0.01 % of the parameters.

    Args:
        model: name of a known model, or path of a config.json.

    Raises:
        SpecError: the model is neither known nor a readable config.json of a decoder that `parse_config` accepts. A
            retry cannot help.
    """
    if model in MODELS:
        return MODELS[model]
    path = Path(model)
    try:
        is_file = path.is_file()
    except OSError:  # the name is too long, or its folder may not be read
        is_file = False
    if not is_file:
        raise SpecError(
            f"the model {model} is not known, and no such file exists.",
            f"Give one of {', '.join(MODELS)}, or the path of a config.json.",
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(f"{model} cannot be read as JSON: {error}.") from None
    if not isinstance(config, dict):
        raise SpecError(f"{model} is not a config.json: it is not a mapping.")
    return parse_config(config, model)


def parse_config(config: dict[str, Any], source: str) -> DecoderSize:
    """Return the size that a config.json of transformers describes.

    Args:
        config: content of the file.
        source: name of the file, for errors.

    Raises:
        SpecError: the model has other layers, or a number is missing or wrong. A retry cannot help.
    """
    if config.get("model_type") not in GATED_TYPES:
        raise SpecError(
            f"{source} has the model_type {config.get('model_type')}: only {', '.join(GATED_TYPES)} can be estimated.",
            "Give the number of parameters in place of the model.",
        )
    heads = config.get("num_attention_heads")
    numbers = {}
    for name, key in KEYS.items():
        value = config.get(key, heads if name == "key_heads" else None)
        numbers[name] = _require_whole(value, f"{source} has no whole number for {key}.")
    head_width = _require_whole(config.get("head_dim") or 0, f"{source} has a wrong head_dim.")
    return DecoderSize(**numbers, head_width=head_width, is_tied=bool(config.get("tie_word_embeddings")))


def _require_whole(value: object, message: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SpecError(message)
    return value
