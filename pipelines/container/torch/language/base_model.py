"""Check and load the base model of a fine-tuning: a folder in the format of Hugging Face, read without a network.

Only safetensors are read: a pickle of somebody else could run code. Code inside the folder is never run.

This module is part of the training job's bundle, so it imports transformers, torch, the standard library and files of
the bundle.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

# These variables must be set before transformers is imported, so that nothing is looked up on the Hugging Face Hub.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from pipelines.container.torch.processes import Processes
from pipelines.errors import DataError
from pipelines.system.files import sha256

FORMAT_HINT = "Give a model folder in the format of Hugging Face: config.json, *.safetensors, tokenizer.json."
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
"""Names of files with weights that are pickles."""
INDEX_FILE = "model.safetensors.index.json"
"""File that maps each weight to its file, if the weights are in several files."""


def check_folder(folder: Path) -> None:
    """Check that a folder has a model that can be trained, before anything is loaded.

    Raises:
        DataError: a file is missing or cannot be read, or the model is a pickle, an adapter, quantized, or needs code
            of its own. A retry cannot help.
    """
    if not (folder / "config.json").is_file():
        raise DataError(_describe_missing_config(folder), FORMAT_HINT)
    config = _read_json(folder / "config.json")
    if "quantization_config" in config:
        raise DataError("the base model is quantized, so it cannot be trained.", "Give the model before quantization.")
    if "auto_map" in config:
        raise DataError("the base model needs Python code of its own (auto_map in config.json), which is not run.")
    weights = {path.name for path in folder.glob("*.safetensors")}
    if not weights:
        pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
        if pickles:
            raise DataError(
                f"the base model is a pickle ({pickles[0]}), which could run code, so it is not read.",
                "Convert it to safetensors: model.save_pretrained(folder).",
            )
        raise DataError("the base model has no weights: the channel model has no *.safetensors.", FORMAT_HINT)
    if (folder / INDEX_FILE).is_file():
        missing_names = sorted(set(_read_json(folder / INDEX_FILE).get("weight_map", {}).values()) - weights)
        if missing_names:
            raise DataError(f"the base model is incomplete: the channel model lacks {missing_names[0]}.")


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a base model.

    Raises:
        DataError: the tokenizer cannot be read, or has no token for the end of a text. A retry cannot help.
    """
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # tokenizers raises a plain Exception
        raise DataError(f"the tokenizer of the base model cannot be read: {error}", FORMAT_HINT) from None
    if tokenizer.eos_token_id is None:
        raise DataError("the tokenizer has no token for the end of a text.", "Set eos_token in tokenizer_config.json.")
    return tokenizer


def load_model(
    folder: Path, dtype: torch.dtype, tokenizer: PreTrainedTokenizerBase, sequence_length: int
) -> PreTrainedModel:
    """Load a base model on the CPU.

    Raises:
        DataError: the model cannot be read, lacks weights, has fewer tokens than the tokenizer, or is made for shorter
            sequences. A retry cannot help.
    """
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    options: dict[str, Any] = {"local_files_only": True, "use_safetensors": True, "trust_remote_code": False}
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", output_loading_info=True, **options
        )
    except Exception as error:  # safetensors, transformers and torch each have errors of their own
        raise DataError(f"the base model cannot be read ({type(error).__name__}): {error}", FORMAT_HINT) from None
    # transformers would fill missing weights with random numbers.
    if report["missing_keys"]:
        names = ", ".join(sorted(report["missing_keys"])[:3])
        raise DataError(f"the base model is incomplete: {len(report['missing_keys'])} weights are missing: {names}.")
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise DataError(f"the tokenizer has {len(tokenizer)} tokens, but the base model only {rows}.")
    positions = getattr(model.config, "max_position_embeddings", None) or sequence_length
    if sequence_length > positions:
        raise DataError(f"sequence_length is {sequence_length}, but the base model has only {positions} positions.")
    model.config.use_cache = False
    model.train()
    return model


def compute_digest(folder: Path, processes: Processes) -> str:
    """Return the digest of the files of a base model, 14 hex digits. Each host reads its files once.

    Raises:
        DataError: a host has other files than the first one. A retry cannot help.
    """
    # `gather` sends 64-bit integers, so the digest has 7 bytes. -1: another process of the host sends the digest.
    number = -1
    if processes.is_first_on_host:
        digest = hashlib.sha256()
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            digest.update(f"{path.name} {sha256(path)}\n".encode())
        number = int.from_bytes(digest.digest()[:7], "big")
    numbers = {values[0] for values in processes.gather(number)} - {-1}
    if len(numbers) > 1:
        raise DataError("a host has another base model than the first host.")
    return f"{numbers.pop():014x}"


def _describe_missing_config(folder: Path) -> str:
    if (folder / "adapter_config.json").is_file():
        return "the channel model has an adapter, not a base model."
    if any(folder.glob("*.tar.gz")):
        return "the channel model has an archive: unpack it first."
    if not folder.is_dir():
        return f"there is no channel model: {folder} does not exist."
    return "the channel model has no config.json."


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} of the base model cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise DataError(f"{path.name} of the base model is not a JSON object.")
    return content
