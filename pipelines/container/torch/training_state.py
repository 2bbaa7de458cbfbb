"""Collect what a training with torch has to save, and put it back: the model's weights and the optimizer's state.

The names in the state come from the model's layers, whether the model is wrapped by DDP, divided by FSDP, or neither.
So a state that was saved with one of them can be loaded with another.

This module is part of the training job's bundle, so it imports torch only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)

MODEL, OPTIMIZER = "model.", "optimizer."
"""Prefixes of the names of weights and of the optimizer's state."""


def collect_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, trainable_only: bool = False
) -> dict[str, Any]:
    """Return the weights and the optimizer's state, by name: tensors, and values such as the learning rate.

    The tensors are no copies: whoever writes into them changes the model. All processes must call this function.

    Args:
        model: the model, with or without DDP or FSDP.
        optimizer: its optimizer.
        trainable_only: whether weights that are not trained are left out, as for LoRA.
    """
    options = _make_options(trainable_only)
    weights, optimizer_state = get_state_dict(model, optimizer, options=options)
    return {
        **{f"{MODEL}{name}": value for name, value in weights.items()},
        **{f"{OPTIMIZER}{name}": value for name, value in optimizer_state.items()},
    }


def apply_state(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
    *,
    trainable_only: bool = False,
) -> None:
    """Put the weights and the optimizer's state back, as `collect_state` returned them.

    All processes must call this function.
    """
    weights = {name.removeprefix(MODEL): value for name, value in state.items() if name.startswith(MODEL)}
    # `ShardedCheckpoints` keeps values that are not tensors as JSON. So tuples, such as AdamW's betas, became lists.
    optimizer_state = {
        name.removeprefix(OPTIMIZER): tuple(value) if isinstance(value, list) else value
        for name, value in state.items()
        if name.startswith(OPTIMIZER)
    }
    set_state_dict(
        model,
        optimizer,
        model_state_dict=weights,
        optim_state_dict=optimizer_state,
        options=_make_options(trainable_only),
    )


def collect_weights(model: torch.nn.Module, *, trainable_only: bool = False) -> dict[str, torch.Tensor]:
    """Return the whole weights on the CPU of the first process, by name; {} on others. All processes must call it."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=trainable_only)
    weights: dict[str, torch.Tensor] = get_model_state_dict(model, options=options)
    return weights


def _make_options(trainable_only: bool) -> StateDictOptions:
    # strict=False: frozen weights are missing on purpose. `ShardedCheckpoints.load` has compared the names before.
    return StateDictOptions(
        flatten_optimizer_state_dict=True, ignore_frozen_params=trainable_only, strict=not trainable_only
    )
