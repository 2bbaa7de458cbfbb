"""Distribute a language model over the processes of a training, by DDP or FSDP.

This module is part of the training job's bundle, so it imports only transformers, torch, the standard library and
files of the bundle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers.modeling_layers import GradientCheckpointingLayer

from pipelines.container.torch.language.hyperparameters import Hyperparameters
from pipelines.container.torch.processes import Processes
from pipelines.errors import DataError


def choose_dtype(hyperparameters: Hyperparameters) -> torch.dtype:
    """Return the precision in which the base model is stored: weights that are trained need fp32."""
    return torch.bfloat16 if hyperparameters.is_lora and hyperparameters.precision == "bf16" else torch.float32


def distribute(build: Callable[[], Any], hyperparameters: Hyperparameters, processes: Processes) -> Any:
    """Build a model in each process, and distribute it. The processes of a host take turns.

    So a host with GPUs needs the memory for one whole model, and not for one model of each of its processes.

    Args:
        build: builds the whole model on the CPU, equal in all processes.
        hyperparameters: strategy and precision.
        processes: the processes of the training.

    Raises:
        DataError: FSDP cannot divide the model, because its layers are not known. A retry cannot help.
    """
    if not hyperparameters.is_divided:
        models = [build().to(processes.device) for _ in _take_turns(processes)]
        return DistributedDataParallel(models[0])
    mesh = init_device_mesh(processes.device.type, (processes.count,))
    models = [_shard(build(), mesh, hyperparameters.precision) for _ in _take_turns(processes)]
    return models[0]


def _take_turns(processes: Processes) -> Iterator[None]:
    """Yield once in each process of a host, one process after another: the others wait meanwhile."""
    for turn in range(int(os.environ.get("LOCAL_WORLD_SIZE", "1"))):
        if turn == processes.local_rank:
            yield
        processes.wait()


def _shard(model: Any, mesh: DeviceMesh, precision: str) -> Any:
    """Divide the weights of each layer among the processes, so that a process has only one layer whole at a time."""
    dtype = torch.bfloat16 if precision == "bf16" else None
    options: dict[str, Any] = {"mesh": mesh}
    options["mp_policy"] = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise DataError("the layers of this model are not known, so it cannot be divided.", "Set strategy=ddp.")
    for layer in layers:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def cast_computation(hyperparameters: Hyperparameters, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context in which the model computes in the precision of the hyperparameters. FSDP casts by itself."""
    is_cast = hyperparameters.precision == "bf16" and not hyperparameters.is_divided
    return cast("AbstractContextManager[Any]", torch.autocast(device.type, torch.bfloat16, enabled=is_cast))


def exchange_gradients(model: Any, is_last: bool) -> AbstractContextManager[Any]:
    """Return the context of a backward pass for one part of a step. DDP sums the gradients only after the last part.

    FSDP sums them after each part: otherwise each process would keep the gradients of the whole model.
    """
    is_delayed = isinstance(model, DistributedDataParallel) and not is_last
    return cast("AbstractContextManager[Any]", model.no_sync()) if is_delayed else nullcontext()


def find_inner_model(model: Any) -> Any:
    """Return the model that DDP wraps. FSDP wraps no model, so its model is returned unchanged."""
    return model.module if isinstance(model, DistributedDataParallel) else model


@contextmanager
def disable_training(model: Any) -> Iterator[None]:
    """Compute without dropout in the `with` block."""
    model.eval()
    try:
        yield
    finally:
        model.train()
