"""A small network for the rows of a table, and what turns rows into its inputs; save, load and score.

The module is part of a training job's source bundle and of the MLflow model, so it imports only torch, safetensors,
pandas, numpy and the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import nn

WEIGHTS_FILE = "weights.safetensors"
SCHEMA_FILE = "schema.json"
SCORED_ROWS = 10_000
"""Number of rows that are scored at once."""


@dataclass(frozen=True)
class Columns:
    """The columns that the network reads, and how their values become its inputs.

    A number is standardized with the mean and the standard deviation of the training rows; a missing one becomes 0, and
    a second input says that it is missing. A category becomes its position in the training rows' categories, from 1; a
    missing or new one becomes 0.
    """

    label: str
    task: str
    """binary or regression."""
    numbers: dict[str, tuple[float, float]]
    """Feature to mean and standard deviation, of each number."""
    categories: dict[str, list[str]]
    """Feature to its categories, sorted."""

    @classmethod
    def fit(cls, rows: pd.DataFrame, description: Mapping[str, Any]) -> Columns:
        """Return the columns of training rows; `description` is that of their channel."""
        kinds = description["features"]
        numbers, categories = {}, {}
        for name, kind in kinds.items():
            if kind == "number":
                values = rows[name].to_numpy(np.float64, na_value=np.nan)
                values = values[~np.isnan(values)]
                mean, deviation = (float(values.mean()), float(values.std())) if len(values) else (0.0, 0.0)
                numbers[name] = (mean, deviation or 1.0)
            else:
                categories[name] = sorted(rows[name].dropna().astype(str).unique().tolist())
        return cls(description["label"], description.get("task", "binary"), numbers, categories)

    def convert(self, rows: pd.DataFrame) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs of the network: numbers of shape (rows, 2 x numbers), codes of shape (rows, categories).

        Raises:
            KeyError: a column is missing.
        """
        inputs = np.zeros((len(rows), 2 * len(self.numbers)), np.float32)
        for position, (name, (mean, deviation)) in enumerate(self.numbers.items()):
            values = rows[name].to_numpy(np.float64, na_value=np.nan)
            is_missing = np.isnan(values)
            inputs[:, 2 * position] = np.where(is_missing, 0.0, (values - mean) / deviation)
            inputs[:, 2 * position + 1] = is_missing
        codes = np.zeros((len(rows), len(self.categories)), np.int64)
        for position, (name, values_of_training) in enumerate(self.categories.items()):
            texts = rows[name].astype(object).where(rows[name].notna(), None)
            codes[:, position] = pd.Index(values_of_training).get_indexer(pd.Index(texts)) + 1
        return torch.from_numpy(inputs), torch.from_numpy(codes)


class Network(nn.Module):
    """Embeddings of the categories, and layers above them and the numbers. The output has the shape (rows,).

    Args:
        columns: what it reads.
        width: number of units of each hidden layer.
        depth: number of hidden layers.
    """

    def __init__(self, columns: Columns, width: int, depth: int) -> None:
        super().__init__()
        sizes = [len(values) + 1 for values in columns.categories.values()]
        self.embeddings = nn.ModuleList([nn.Embedding(size, min(16, (size + 1) // 2)) for size in sizes])
        inputs = 2 * len(columns.numbers) + sum(embedding.embedding_dim for embedding in self.embeddings)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(nn.Sequential(nn.Linear(inputs, width), nn.ReLU()))
            inputs = width
        self.output = nn.Linear(inputs, 1)

    def forward(self, numbers: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Return the logit of each row; for a regression, the number."""
        parts = [embedding(codes[:, position]) for position, embedding in enumerate(self.embeddings)]
        values = torch.cat([numbers.to(self.output.weight.dtype), *parts], dim=1)
        for block in self.blocks:
            values = block(values)
        return self.output(values).sum(dim=1)  # FSDP warns of a view, such as squeeze(1)


@dataclass(frozen=True)
class Model:
    """A trained network and its columns."""

    network: Network
    columns: Columns

    def score(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return for each row the probability that the label is true, or in a regression the predicted number."""
        numbers, codes = self.columns.convert(frame)
        parts = []
        with torch.inference_mode():
            for start in range(0, len(frame), SCORED_ROWS):
                rows = slice(start, start + SCORED_ROWS)
                values = self.network(numbers[rows], codes[rows]).double()
                parts.append(values.sigmoid() if self.columns.task == "binary" else values)
        return torch.cat(parts).numpy() if parts else np.zeros(0)

    def importance(self) -> dict[str, float]:
        """Return each feature's share of the absolute weights of the first layer, largest first. It is only a hint."""
        first = next(layer for layer in self.network.modules() if isinstance(layer, nn.Linear))
        weights = first.weight.detach().abs().sum(dim=0).tolist()
        shares = {name: weights[2 * place] + weights[2 * place + 1] for place, name in enumerate(self.columns.numbers)}
        start = 2 * len(self.columns.numbers)
        for name, embedding in zip(self.columns.categories, self.network.embeddings, strict=True):
            end = start + embedding.embedding_dim
            shares[name], start = sum(weights[start:end]), end
        total = sum(shares.values()) or 1.0
        return dict(sorted(((name, share / total) for name, share in shares.items()), key=lambda item: -item[1]))


def save(folder: Path, columns: Columns, weights: Mapping[str, torch.Tensor], width: int, depth: int) -> None:
    """Write a model to a folder, without pickle: the weights, and a JSON file with all else."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, folder / WEIGHTS_FILE)
    text = json.dumps({"columns": asdict(columns), "width": width, "depth": depth}, indent=2)
    (folder / SCHEMA_FILE).write_text(f"{text}\n", encoding="utf-8")


def load(folder: Path) -> Model:
    """Load the model that `save` wrote.

    Raises:
        FileNotFoundError: a file of the model is missing.
    """
    values = json.loads((folder / SCHEMA_FILE).read_text(encoding="utf-8"))
    columns = Columns(**values["columns"])
    network = Network(columns, values["width"], values["depth"])
    network.load_state_dict(load_file(folder / WEIGHTS_FILE))
    return Model(network.eval(), columns)
