"""Add the matrices of LoRA to a model, and write the model that was trained.

This module is part of the training job's bundle, so it imports only peft, torch, the standard library and files of the
bundle.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model

from pipelines.container.torch.language.hyperparameters import Hyperparameters
from pipelines.errors import DataError

ALL_LINEAR = "all-linear"
"""Value of `lora_targets` that peft replaces by all linear layers but the output layer."""


def add_adapter(model: Any, hyperparameters: Hyperparameters) -> PeftModel:
    """Freeze a model, and add matrices that are trained (Hu et al. 2021), in fp32. The seed decides their first values.

    Raises:
        DataError: the model has no layer that `lora_targets` names. A retry cannot help.
    """
    targets: Any = hyperparameters.lora_targets
    if targets != ALL_LINEAR:
        targets = [name.strip() for name in targets.split(",") if name.strip()]
    torch.manual_seed(hyperparameters.seed)  # all processes make the same matrices
    config = LoraConfig(
        r=hyperparameters.lora_rank,
        lora_alpha=hyperparameters.lora_alpha,
        lora_dropout=hyperparameters.lora_dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        # peft 0.21 reads a property that transformers 5.24 has renamed.
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
        try:
            return get_peft_model(model, config)
        except ValueError as error:
            raise DataError(f"hyperparameter lora_targets: {error}") from None


def save_model(model: Any, weights: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Write what was trained as safetensors: the adapter, or the whole model.

    Args:
        model: the model without DDP.
        weights: whole weights by name, as `collect_weights` returns them; of an adapter, only those that are trained.
        folder: folder of the model; created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model, PeftModel):
        # The path of the base model exists only in this job, so it is not written; training.json has the digest.
        model.peft_config["default"].base_model_name_or_path = None
        model.save_pretrained(folder, state_dict=dict(weights), safe_serialization=True)
        (folder / "README.md").unlink(missing_ok=True)  # peft writes the template of a model card, not filled in
        return
    # Weights that two layers share are written once, as transformers expects it.
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    second_names = names - {name for name, _ in model.named_parameters()}
    contents = {name: value for name, value in weights.items() if name not in second_names}
    model.save_pretrained(folder, state_dict=contents, safe_serialization=True)
