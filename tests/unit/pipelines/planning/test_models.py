"""Test the sizes of models: the published numbers of parameters, and files config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import SpecError
from pipelines.planning.models import MODELS, find_size
from pipelines.planning.sizes import DecoderSize

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("llama-2-7b", 6.74),
        ("llama-2-13b", 13.02),
        ("llama-2-70b", 68.98),
        ("llama-3-8b", 8.03),
        ("llama-3-70b", 70.55),
        ("llama-3.1-405b", 405.85),
        ("mistral-7b", 7.24),
    ],
)
def test_published_numbers_of_parameters(model: str, billions: float) -> None:
    """The parameters that the pages of the models state."""
    assert MODELS[model].parameters / 1e9 == pytest.approx(billions, abs=0.005)


def test_config_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    assert find_size(str(path)) == MODELS["llama-3-8b"]
    del CONFIG["num_key_value_heads"]  # without grouped-query attention, the key may be missing
    path.write_text(json.dumps(CONFIG | {"head_dim": 128, "tie_word_embeddings": True}))
    assert find_size(str(path)) == DecoderSize(32, 4096, 14336, 32, 32, 128256, is_tied=True, head_width=128)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "cannot be read as JSON"),
        ("[1]", "it is not a mapping"),
        (json.dumps(CONFIG | {"model_type": "mixtral"}), "has the model_type mixtral: only llama, mistral"),
        (json.dumps(CONFIG | {"hidden_size": "wide"}), "has no whole number for hidden_size."),
        (json.dumps(CONFIG | {"vocab_size": True}), "has no whole number for vocab_size."),
        (json.dumps(CONFIG | {"head_dim": 1.5}), "has a wrong head_dim."),
        (json.dumps(CONFIG | {"num_key_value_heads": 64}), "key_heads (64) must divide heads (32)."),
        (json.dumps(CONFIG | {"num_hidden_layers": -1}), "layers must be a positive number, not -1."),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        find_size(str(path))
    assert error in str(caught.value)


def test_unknown_model_is_refused() -> None:
    with pytest.raises(
        SpecError, match=r"the model gpt-9 is not known, and no such file exists. Give one of llama-2-7b"
    ):
        find_size("gpt-9")
