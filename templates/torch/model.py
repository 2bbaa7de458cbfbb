"""A small network for rows of numbers and categories: its inputs, its layers, its scores, and its files.

`Inputs` is what the network needs to know about the training data. `Network` has the layers: change them here. `load`
returns a `Model`, which scores rows without the process group of the training.

The module is part of the training job's bundle and of the MLflow model, so it imports torch, safetensors, pandas, numpy
and files of the bundle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipelines.classes import encode_labels, list_classes

WEIGHTS_FILE, INPUTS_FILE = "model.safetensors", "inputs.json"
PACKAGES = ("mlflow", "numpy", "pandas", "safetensors", "torch")
"""Packages that the packaged model requires."""
METRICS = {"binary": "logloss", "multiclass": "mlogloss", "regression": "rmse"}
"""Maps each task to the metric that is reported after each epoch. Less is better."""
SCORED_ROWS = 8_192
"""Number of rows that are scored at once."""


@dataclass(frozen=True)
class Inputs:
    """The columns that the network reads, with their categories, means and deviations in the training data.

    Attributes:
        features: name to kind, 'number' or 'category'.
        label: name of the label's column.
        task: 'binary', 'multiclass' or 'regression'.
        categories: feature to its categories, for each feature of kind 'category'.
        centers: feature to its mean, for each feature of kind 'number'; in a regression, also the label to its mean.
        scales: standard deviations of the columns in `centers`; 1 instead of 0.
        classes: names of the classes of a multiclass model; empty for others.
        hidden: widths of the hidden layers.
        embedding: width of the vector of a category.
    """

    features: dict[str, str]
    label: str
    task: str
    categories: dict[str, list[str]]
    centers: dict[str, float]
    scales: dict[str, float]
    classes: list[str]
    hidden: list[int]
    embedding: int

    @classmethod
    def fit(cls, frame: pd.DataFrame, description: Mapping[str, Any], hidden: Sequence[int], embedding: int) -> Inputs:
        """Return the inputs, with the categories, means and deviations of the training rows.

        Args:
            frame: the training rows.
            description: has `features`, `label` and `task`; `pipelines.defaults.channels` reads it from a channel.
            hidden: widths of the hidden layers.
            embedding: width of the vector of a category.

        Raises:
            KeyError: a column is missing.
        """
        kinds, label, task = description["features"], description["label"], description.get("task", "binary")
        numbers = [name for name, kind in kinds.items() if kind == "number"]
        columns = frame[[*numbers, *([label] if task == "regression" else [])]].astype("float64")
        deviations = columns.std(ddof=0)
        return cls(
            features=dict(kinds),
            label=label,
            task=task,
            categories={
                name: sorted(frame[name].dropna().astype(str).unique().tolist())
                for name, kind in kinds.items()
                if kind == "category"
            },
            centers={str(name): float(value) for name, value in columns.mean().fillna(0).items()},
            scales={str(name): float(value) if value > 0 else 1.0 for name, value in deviations.items()},
            classes=list_classes(frame[label]) if task == "multiclass" else [],
            hidden=list(hidden),
            embedding=embedding,
        )

    @property
    def numbers(self) -> list[str]:
        """Names of the features of kind 'number'."""
        return [name for name, kind in self.features.items() if kind == "number"]

    def encode(self, frame: pd.DataFrame) -> tuple[Tensor, Tensor]:
        """Return the features as the network reads them.

        Returns:
            Numbers, shape (rows, 2 x numbers): standardized, 0 if missing; then 1 if missing, else 0. And the codes of
            the categories, shape (rows, categories): 0 if missing or not in the training data.

        Raises:
            KeyError: a feature is missing.
        """
        values = np.empty((len(frame), len(self.numbers)), np.float64)
        for index, name in enumerate(self.numbers):
            column = frame[name].to_numpy(np.float64, na_value=np.nan)
            values[:, index] = (column - self.centers[name]) / self.scales[name]
        is_missing = np.isnan(values)
        numbers = np.concatenate([np.where(is_missing, 0.0, values), is_missing], axis=1)
        codes = np.empty((len(frame), len(self.categories)), np.int64)
        for index, (name, categories) in enumerate(self.categories.items()):
            texts = frame[name].astype(object).where(frame[name].notna(), None)
            known_codes = {category: code for code, category in enumerate(categories, 1)}
            codes[:, index] = [known_codes.get(str(text), 0) if text is not None else 0 for text in texts]
        return torch.from_numpy(numbers.astype(np.float32)), torch.from_numpy(codes)

    def encode_label(self, frame: pd.DataFrame) -> Tensor:
        """Return the label as `compute_loss` reads it: class indices, or numbers (standardized in a regression).

        Raises:
            ValueError: a label is a class that training did not see.
        """
        if self.task == "multiclass":
            return torch.from_numpy(encode_labels(frame[self.label], self.classes).astype(np.int64))
        values = frame[self.label].to_numpy(np.float64)
        if self.task == "regression":
            values = (values - self.centers[self.label]) / self.scales[self.label]
        return torch.from_numpy(values.astype(np.float32))


class Network(nn.Module):
    """Embeddings of the categories, then hidden layers.

    The normalization uses the values of one row only, so a batch can be divided among processes in any way.
    """

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(
            nn.Embedding(len(categories) + 1, inputs.embedding) for categories in inputs.categories.values()
        )
        width = 2 * len(inputs.numbers) + len(inputs.categories) * inputs.embedding
        self.blocks = nn.ModuleList()
        for hidden in inputs.hidden:
            self.blocks.append(nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU()))
            width = hidden
        self.output = nn.Linear(width, len(inputs.classes) or 1)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Return the logits, or the standardized prediction of a regression; shape (rows, outputs)."""
        vectors = [embedding(codes[:, index]) for index, embedding in enumerate(self.embeddings)]
        values = torch.cat([numbers, *vectors], dim=1)
        for block in self.blocks:
            values = block(values)
        output: Tensor = self.output(values)
        return output


def compute_loss(task: str, output: Tensor, label: Tensor) -> Tensor:
    """Return the sum of the losses of the rows; the caller divides it by the number of rows of all processes."""
    if task == "multiclass":
        return nn.functional.cross_entropy(output, label, reduction="sum")
    if task == "regression":
        return nn.functional.mse_loss(output[:, 0], label, reduction="sum")
    return nn.functional.binary_cross_entropy_with_logits(output[:, 0], label, reduction="sum")


def compute_metric(inputs: Inputs, mean_loss: float) -> float:
    """Compute the task's metric (`METRICS`) from the mean loss."""
    return float(mean_loss**0.5 * inputs.scales[inputs.label]) if inputs.task == "regression" else mean_loss


@dataclass(frozen=True)
class Model:
    """A trained network and its inputs."""

    network: Network
    inputs: Inputs

    def score(self, frame: pd.DataFrame) -> np.ndarray[Any, Any] | pd.DataFrame:
        """Score each row: a probability, a number, or for several classes a frame with a column for each class."""
        numbers, codes = self.inputs.encode(frame)
        with torch.inference_mode():
            outputs = [
                self.network(numbers[start : start + SCORED_ROWS], codes[start : start + SCORED_ROWS]).double()
                for start in range(0, max(len(frame), 1), SCORED_ROWS)
            ]
        output = torch.cat(outputs)
        if self.inputs.task == "multiclass":
            return pd.DataFrame(output.softmax(1).numpy(), frame.index, self.inputs.classes)
        if self.inputs.task == "regression":
            label = self.inputs.label
            return np.asarray(output[:, 0] * self.inputs.scales[label] + self.inputs.centers[label])
        return np.asarray(output[:, 0].sigmoid())

    def importance(self) -> dict[str, float]:
        """Return each feature's share of the absolute weights of the first layer, largest first.

        The inputs are standardized, so the weights can be compared. A share is a hint: it does not measure how much
        worse the model would be without the feature.
        """
        first_layer = self.network.blocks[0][0] if len(self.network.blocks) else self.network.output
        sizes = first_layer.weight.detach().abs().sum(0).tolist()
        numbers, width = self.inputs.numbers, self.inputs.embedding
        totals = {name: sizes[index] + sizes[len(numbers) + index] for index, name in enumerate(numbers)}
        for index, name in enumerate(self.inputs.categories):
            start = 2 * len(numbers) + index * width
            totals[name] = sum(sizes[start : start + width])
        total = sum(totals.values()) or 1.0
        return {name: value / total for name, value in sorted(totals.items(), key=lambda item: -item[1])}

    def save(self, folder: Path) -> None:
        """Write the model to `folder`: weights as safetensors, inputs as JSON; no pickle."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: value.contiguous() for name, value in self.network.state_dict().items()}
        save_file(weights, folder / WEIGHTS_FILE)
        (folder / INPUTS_FILE).write_text(json.dumps(asdict(self.inputs), indent=2) + "\n", encoding="utf-8")


def load(folder: Path) -> Model:
    """Load the model that `Model.save` wrote to `folder`.

    Raises:
        FileNotFoundError: a file of the model is missing.
        RuntimeError: the weights do not fit the layers.
    """
    inputs = Inputs(**json.loads((folder / INPUTS_FILE).read_text(encoding="utf-8")))
    network = Network(inputs)
    network.load_state_dict(load_file(folder / WEIGHTS_FILE))
    return Model(network.eval(), inputs)
