"""Define the pipelines that the benchmark `loader` compares. Each reads one epoch, and returns the number of samples.

The map-style datasets are what a training script has without a loader of its own: torch draws an order of all samples,
and reads each sample separately.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, TensorDataset

from pipelines.container.torch.loader import Loader
from pipelines.container.torch.parquet_rows import ParquetRows
from pipelines.container.torch.shard_index import scan_shard
from pipelines.container.torch.shards import Shards

BATCH = 256
WORKERS = 2
BUFFER, SHARD_BUFFER = 50_000, 1_000
"""Samples that are shuffled together: rows of Parquet files, and samples of shards."""

Pipeline = tuple[str, Callable[[], int]]


def list_parquet_pipelines(folder: Path) -> list[Pipeline]:
    """Return the names of the pipelines for Parquet files, each with its function."""
    names = [name for name in pq.read_schema(min(folder.iterdir())).names if name != "label"]
    return [
        ("Parquet: loader, a thread", partial(_read_rows, folder, names, 0)),
        (f"Parquet: loader, {WORKERS} workers", partial(_read_rows, folder, names, WORKERS)),
        ("Parquet: torch DataLoader, all rows in memory", partial(_read_rows_in_memory, folder, names, 0)),
        (f"Parquet: the same, {WORKERS} workers", partial(_read_rows_in_memory, folder, names, WORKERS)),
        ("Parquet: pyarrow's scanner, rows not mixed", partial(_scan_rows, folder, names)),
    ]


def list_shard_pipelines(folder: Path) -> list[Pipeline]:
    """Return the names of the pipelines for shards, each with its function."""
    pipelines: list[Pipeline] = [
        ("shards: loader, a thread", partial(_read_shards, folder, 0)),
        (f"shards: loader, {WORKERS} workers", partial(_read_shards, folder, WORKERS)),
        (f"shards: torch DataLoader, an entry at a time, {WORKERS} workers", partial(_read_entries, folder)),
    ]
    if importlib.util.find_spec("webdataset"):
        pipelines.append((f"shards: WebDataset, {WORKERS} workers", partial(_read_webdataset, folder)))
    return pipelines


def _count(batches: Iterable[Any], select_values: Callable[[Any], Any]) -> int:
    """Read all batches, convert the selected values of each one to a tensor, and return the number of samples."""
    return sum(len(torch.as_tensor(select_values(batch))) for batch in batches)


def _read_rows(folder: Path, names: list[str], workers: int) -> int:
    source = ParquetRows(folder, {"x": names, "y": "label"})
    loader = Loader(source, BATCH, seed=1, buffer=BUFFER, workers=workers)
    return _count(loader, lambda batch: batch["y"])


def _read_rows_in_memory(folder: Path, names: list[str], workers: int) -> int:
    table = pq.read_table(folder)
    features = torch.from_numpy(np.stack([table.column(name).to_numpy() for name in names], 1))
    dataset = TensorDataset(features, torch.from_numpy(table.column("label").to_numpy()))
    loader = DataLoader(dataset, BATCH, shuffle=True, num_workers=workers)
    return _count(loader, lambda batch: batch[1])


def _scan_rows(folder: Path, names: list[str]) -> int:
    batches = pyarrow.dataset.dataset(folder).to_batches(columns=[*names, "label"], batch_size=BATCH)
    return _count(map(partial(_convert, names), batches), lambda batch: batch[1])


def _convert(names: list[str], batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    features = np.stack([batch.column(name).to_numpy() for name in names], 1)
    return torch.from_numpy(features), torch.from_numpy(batch.column("label").to_numpy().copy())


def _read_shards(folder: Path, workers: int) -> int:
    loader = Loader(Shards(folder), BATCH, seed=1, buffer=SHARD_BUFFER, workers=workers)
    return _count(loader, lambda batch: batch["x.npy"])


class _Entries:
    """A map-style dataset of the samples of shards: it reads the bytes of a sample when torch asks for the sample."""

    def __init__(self, folder: Path) -> None:
        self._samples: list[tuple[Path, int, int]] = []
        for path in sorted(folder.glob("*.tar")):
            offsets = scan_shard(path).offsets
            self._samples += [(path, start, stop) for start, stop in pairwise(offsets)]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        path, start, stop = self._samples[number]
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(stop - start)
        # The array and the class are the two files of a sample, in this order, each after a header of 512 bytes.
        size = int(content[124:135], 8)
        array = np.load(io.BytesIO(content[512 : 512 + size]))
        label_start = 512 + -(-size // 512) * 512
        label_size = int(content[label_start + 124 : label_start + 135], 8)
        return array, int(content[label_start + 512 : label_start + 512 + label_size])


def _read_entries(folder: Path) -> int:
    dataset: Any = _Entries(folder)
    loader = DataLoader(dataset, BATCH, shuffle=True, num_workers=WORKERS)
    return _count(loader, lambda batch: batch[0])


def _read_webdataset(folder: Path) -> int:
    webdataset: Any = importlib.import_module("webdataset")
    urls = [str(path) for path in sorted(folder.glob("*.tar"))]
    dataset = webdataset.WebDataset(urls, shardshuffle=100, seed=1).shuffle(SHARD_BUFFER).decode()
    batches = dataset.to_tuple("x.npy", "cls").batched(BATCH)
    return _count(webdataset.WebLoader(batches, batch_size=None, num_workers=WORKERS), lambda batch: batch[0])
